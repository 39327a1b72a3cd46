#pragma once

#include <vector>

#include "program/draw/graph.h"

// A side branch of the block as rows and columns.

namespace mainstem::draw {

/// A node, or the line of a value that passes a row on its way further down (node < 0).
struct Cell {
  int node = -1;
  int source = 0;  ///< the node whose value it carries
  int row = 0;
  int first = 0, last = 0;  ///< columns
};

/// Cells are joined only to cells of the next row; `links` holds indices of cells. The cells of
/// row 0 that read the stream are `entries`, those of the last row that go to it `exits`.
struct Grid {
  int rows = 0, columns = 0;
  std::vector<Cell> cells;
  std::vector<std::pair<int, int>> links;
  std::vector<int> entries, exits;
};

/// Steps off the stem that hang together, from where they read the stream to where they rejoin it.
struct Branch {
  int leave = 0;  ///< index in the stem of the value that is read
  int join = 0;   ///< index in the stem of the sum
  Grid grid;
};

/// Internal Error for a graph that is no block: a branch that reads the stream in two places.
std::vector<Branch> make_branches(const BlockGraph& graph);

}  // namespace mainstem::draw
