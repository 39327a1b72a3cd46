"""A program in plain C++ that writes .npy files, by the function of the page."""

import shutil
import subprocess

import torch

import recipes
from programs import TOKENS, NotHere, recipe
from programs.pytorch import ids_of, load

# Reads for each step a line with name, count and shape, and then that many numbers.
MAIN = """
#include <fstream>
#include <sstream>
#include <vector>

int main(int, char** arguments) {
  std::ifstream file(arguments[1], std::ios::binary);
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string name, shape, size;
    size_t count = 0;
    words >> name >> count;
    while (words >> size) shape += (shape.empty() ? "" : ", ") + size;
    std::vector<float> values(count);
    file.read(reinterpret_cast<char*>(values.data()), std::streamsize(count * sizeof(float)));
    save_npy(std::string(arguments[2]) + "/" + name + ".npy", values.data(), shape, count);
  }
}
"""


def plain_cpp(path, folder):
    compiler = shutil.which("c++")
    if compiler is None:
        raise NotHere("no C++ compiler")
    source, program, out = folder / "save.cc", folder / "save", folder / "dump"
    source.write_text(recipes.blocks("Plain C++", "cpp")[0] + MAIN)
    subprocess.run([compiler, "-std=c++17", "-o", program, source], check=True)
    values, model, ids = {}, load(path), ids_of(path)
    for n, block in enumerate(model.model.layers):
        block.input_layernorm.register_forward_hook(lambda *given, n=n: values.update({f"blocks.{n}.attn_norm": given[2]}))
        block.register_forward_hook(lambda *given, n=n: values.update({f"blocks.{n}.resid_post": given[2]}))
    with torch.no_grad():
        values["logits"] = model(ids).logits
    out.mkdir()
    raw = folder / "values"
    with raw.open("wb") as file:
        for name, value in values.items():
            shape = " ".join(map(str, value.shape))
            file.write(f"{name} {value.numel()} {shape}\n".encode() + value.float().contiguous().numpy().tobytes())
    subprocess.run([program, raw, out], check=True)
    return out


recipe("plain_cpp_llama", "llama", plain_cpp, arguments=("--tokens", ",".join(map(str, TOKENS))))
