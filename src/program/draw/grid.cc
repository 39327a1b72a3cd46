#include "program/draw/grid.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "mainstem/error.h"

namespace mainstem::draw {
namespace {

/// Position in the stem of each node, or -1.
std::vector<int> stem_positions(const BlockGraph& graph) {
  std::vector<int> positions(graph.nodes.size(), -1);
  for (size_t i = 0; i < graph.stem.size(); ++i) {
    positions[static_cast<size_t>(graph.stem[i])] = static_cast<int>(i);
  }
  return positions;
}

/// Nodes off the stem that hang together, each list in order.
std::vector<std::vector<int>> components(const BlockGraph& graph, const std::vector<int>& stem) {
  std::vector<int> root(graph.nodes.size());
  std::iota(root.begin(), root.end(), 0);
  const auto find = [&](int n) {
    while (root[static_cast<size_t>(n)] != n) n = root[static_cast<size_t>(n)];
    return n;
  };
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    if (stem[n] >= 0) continue;
    for (int input : graph.nodes[n].inputs) {
      if (stem[static_cast<size_t>(input)] < 0) {
        root[static_cast<size_t>(find(static_cast<int>(n)))] = find(input);
      }
    }
  }
  std::map<int, std::vector<int>> parts;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    if (stem[n] < 0) parts[find(static_cast<int>(n))].push_back(static_cast<int>(n));
  }
  std::vector<std::vector<int>> result;
  for (auto& [_, part] : parts) result.push_back(std::move(part));
  std::sort(result.begin(), result.end());
  return result;
}

class GridBuilder {
 public:
  GridBuilder(const BlockGraph& graph, const std::vector<int>& stem, const std::vector<int>& nodes)
      : graph_(graph), stem_(stem), nodes_(nodes), inside_(nodes.begin(), nodes.end()) {}

  Branch build() {
    Branch branch;
    std::tie(branch.leave, branch.join) = ends();
    assign_rows();
    add_cells();
    order_rows();
    assign_columns();
    branch.grid = std::move(grid_);
    return branch;
  }

 private:
  const Node& node(int n) const { return graph_.nodes[static_cast<size_t>(n)]; }
  bool on_stem(int n) const { return stem_[static_cast<size_t>(n)] >= 0; }
  bool is_port(int n) const { return node(n).kind == NodeKind::kPort; }

  std::pair<int, int> ends() {
    std::set<int> leaves, joins;
    for (int n : nodes_) {
      for (int input : node(n).inputs) {
        if (on_stem(input)) leaves.insert(stem_[static_cast<size_t>(input)]);
      }
    }
    for (int n : graph_.stem) {
      for (int input : node(n).inputs) {
        if (!inside_.contains(input)) continue;
        joins.insert(stem_[static_cast<size_t>(n)]);
        sinks_.insert(input);
      }
    }
    if (leaves.size() != 1 || joins.size() != 1) {
      throw internal_error("a branch that leaves or rejoins the stream in several places");
    }
    return {*leaves.begin(), *joins.begin()};
  }

  /// As early as inputs allow. What reads the encoder goes as late as its readers allow, all of
  /// it in one row, and the encoder's output in the row above.
  void assign_rows() {
    settle(false);
    for (int port : nodes_) {
      if (is_port(port)) place_port(port);
    }
    settle(true);
    for (const auto& [_, row] : row_) grid_.rows = std::max(grid_.rows, row + 1);
  }

  void settle(bool with_ports) {
    for (int n : nodes_) {
      int& row = row_[n];
      for (int input : node(n).inputs) {
        if (!inside_.contains(input) || (is_port(input) && !with_ports)) continue;
        row = std::max(row, row_.at(input) + 1);
      }
    }
  }

  void place_port(int port) {
    const std::map<int, int> latest = latest_rows();
    int row = 1 << 20;
    for (int n : nodes_) {
      if (is_reader(n, port)) row = std::min(row, latest.at(n));
    }
    if (row == 0) {
      for (auto& [_, other] : row_) ++other;
      row = 1;
    }
    row_[port] = row - 1;
    for (int n : nodes_) {
      if (is_reader(n, port)) row_[n] = std::max(row_[n], row);
    }
  }

  bool is_reader(int n, int of) const {
    const auto& inputs = node(n).inputs;
    return std::find(inputs.begin(), inputs.end(), of) != inputs.end();
  }

  /// The lowest row each node could have if those without readers here keep theirs.
  std::map<int, int> latest_rows() const {
    std::map<int, int> latest;
    for (auto n = nodes_.rbegin(); n != nodes_.rend(); ++n) {
      int row = 1 << 20;
      for (int reader : nodes_) {
        if (is_reader(reader, *n)) row = std::min(row, latest.at(reader) - 1);
      }
      latest[*n] = row == 1 << 20 ? row_.at(*n) : row;
    }
    return latest;
  }

  int cell_of(int n) const { return cell_of_node_.at(n); }

  int add_cell(Cell cell) {
    grid_.cells.push_back(cell);
    return static_cast<int>(grid_.cells.size()) - 1;
  }

  /// The cell that carries the value of `source` through `row`; -1 where the row has its node.
  int carrier(int source, int row) {
    const auto key = std::make_pair(source, row);
    const auto found = carriers_.find(key);
    if (found != carriers_.end()) return found->second;
    const int cell = add_cell({.source = source, .row = row});
    carriers_[key] = cell;
    const int start = on_stem(source) ? -1 : row_.at(source);
    if (row - 1 > start) {
      grid_.links.emplace_back(carrier(source, row - 1), cell);
    } else if (on_stem(source)) {
      grid_.entries.push_back(cell);
    } else {
      grid_.links.emplace_back(cell_of(source), cell);
    }
    return cell;
  }

  void link(int source, int target, int target_row) {
    const int start = on_stem(source) ? -1 : row_.at(source);
    if (target_row - 1 > start) {
      grid_.links.emplace_back(carrier(source, target_row - 1), target);
    } else if (on_stem(source)) {
      grid_.entries.push_back(target);
    } else {
      grid_.links.emplace_back(cell_of(source), target);
    }
  }

  void add_cells() {
    for (int n : nodes_) cell_of_node_[n] = add_cell({.node = n, .source = n, .row = row_.at(n)});
    for (int n : nodes_) {
      for (int input : node(n).inputs) link(input, cell_of(n), row_.at(n));
    }
    for (int n : sinks_) {
      const bool last = row_.at(n) == grid_.rows - 1;
      grid_.exits.push_back(last ? cell_of(n) : carrier(n, grid_.rows - 1));
    }
  }

  /// By the mean place of what comes in from above, then by the order of the steps.
  void order_rows() {
    order_.resize(static_cast<size_t>(grid_.rows));
    std::vector<double> place(grid_.cells.size(), 0);
    for (int row = 0; row < grid_.rows; ++row) {
      std::vector<std::tuple<double, int, int>> cells;
      for (size_t c = 0; c < grid_.cells.size(); ++c) {
        if (grid_.cells[c].row != row) continue;
        double sum = 0;
        int count = 0;
        for (const auto& [from, to] : grid_.links) {
          if (to != static_cast<int>(c)) continue;
          sum += place[static_cast<size_t>(from)];
          ++count;
        }
        const double mean = count > 0 ? sum / count : 0;
        cells.emplace_back(mean, grid_.cells[c].source, static_cast<int>(c));
      }
      std::sort(cells.begin(), cells.end());
      for (const auto& [_, source, cell] : cells) {
        auto& line = order_[static_cast<size_t>(row)];
        place[static_cast<size_t>(cell)] = static_cast<double>(line.size());
        line.push_back(cell);
      }
    }
  }

  /// The widest row gives each of its cells a column; the others span the columns of the cells
  /// they are joined to.
  void assign_columns() {
    size_t widest = 0;
    for (size_t row = 0; row < order_.size(); ++row) {
      if (order_[row].size() > order_[widest].size()) widest = row;
    }
    int column = 0;
    for (int cell : order_[widest]) {
      at(cell).first = at(cell).last = column++;
    }
    grid_.columns = column;
    for (size_t row = widest + 1; row < order_.size(); ++row) span(order_[row], Neighbours::kAbove);
    for (size_t row = widest; row-- > 0;) span(order_[row], Neighbours::kBelow);
  }

  enum class Neighbours { kAbove, kBelow };

  void span(const std::vector<int>& line, Neighbours which) {
    int next_free = 0;
    for (int cell : line) {
      int first = grid_.columns, last = -1;
      for (const auto& [from, to] : grid_.links) {
        const int own = which == Neighbours::kAbove ? to : from;
        const int other = which == Neighbours::kAbove ? from : to;
        if (own != cell) continue;
        first = std::min(first, at(other).first);
        last = std::max(last, at(other).last);
      }
      if (last < 0) first = last = next_free;
      at(cell).first = std::max(first, next_free);
      at(cell).last = std::max(last, at(cell).first);
      next_free = at(cell).last + 1;
      grid_.columns = std::max(grid_.columns, next_free);
    }
  }

  Cell& at(int cell) { return grid_.cells[static_cast<size_t>(cell)]; }

  const BlockGraph& graph_;
  const std::vector<int>& stem_;
  const std::vector<int>& nodes_;
  std::set<int> inside_, sinks_;
  std::map<int, int> row_, cell_of_node_;
  std::map<std::pair<int, int>, int> carriers_;
  std::vector<std::vector<int>> order_;
  Grid grid_;
};

}  // namespace

std::vector<Branch> make_branches(const BlockGraph& graph) {
  const std::vector<int> stem = stem_positions(graph);
  std::vector<Branch> branches;
  for (const std::vector<int>& part : components(graph, stem)) {
    branches.push_back(GridBuilder(graph, stem, part).build());
  }
  return branches;
}

}  // namespace mainstem::draw
