"""transformers keeps float32 inside norms, softmax and rotary tables even in a float64 model;
in_double() makes that float64, so that a model computes to 1e-14."""

import contextlib
import sys

import torch


class DoubleTorch:
    """torch, where float32 means float64."""

    def __getattr__(self, name):
        if name == "FloatTensor":
            return torch.DoubleTensor
        return torch.float64 if name in ("float", "float32") else getattr(torch, name)


def modeling_modules():
    names = [name for name in sys.modules if name.startswith("transformers.models.")]
    modules = [sys.modules[name] for name in names if ".modeling_" in name]
    modules.append(sys.modules["transformers.modeling_rope_utils"])
    return [module for module in modules if getattr(module, "torch", None) is torch]


@contextlib.contextmanager
def in_double():
    """For models of the modules that are imported already."""
    modules = modeling_modules()
    to_float = torch.Tensor.float
    torch.set_default_dtype(torch.float64)
    torch.Tensor.float = torch.Tensor.double
    for module in modules:
        module.torch = DoubleTorch()
    try:
        yield
    finally:
        for module in modules:
            module.torch = torch
        torch.Tensor.float = to_float
        torch.set_default_dtype(torch.float32)
