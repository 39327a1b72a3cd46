"""ONNX Runtime and OpenVINO, which run a graph made from the PyTorch model."""

import numpy
import torch

import recipes
from programs import MINILM, SMOLLM2, recipe
from programs.pytorch import ids_of, load


class Outputs(torch.nn.Module):
    """The model, whose inner values are outputs: a tuple, in the order of `names`."""

    def __init__(self, model):
        super().__init__()
        self.model, self.names, self.found = model, [], {}
        for name, module in model.named_modules():
            if name and "rotary" not in name and "dropout" not in name.lower():
                module.register_forward_hook(self.keep(name))

    def keep(self, name):
        def hook(module, inputs, output):
            output = output[0] if isinstance(output, tuple) else output
            if torch.is_tensor(output):
                self.found.setdefault(name, output)
        return hook

    def forward(self, ids):
        self.found = {}
        words = {} if self.model.config.model_type == "bert" else {"use_cache": False}
        # Without a mask transformers looks for packed sequences, with an operation that neither format has.
        out = self.model(ids, attention_mask=torch.ones_like(ids), **words)
        if hasattr(out, "logits"):
            self.found["logits"] = out.logits
        self.names = list(self.found)
        # A value that is another's, too, would be one output of the graph.
        return tuple(value + 0 for value in self.found.values())


def onnx(path, folder):
    import onnxruntime
    module, ids, graph, out = Outputs(load(path)).eval(), ids_of(path), folder / "model.onnx", folder / "dump.npz"
    with torch.no_grad():
        module(ids)
        torch.onnx.export(module, (ids,), str(graph), dynamo=False, input_names=["ids"], output_names=module.names)
    recipes.run(recipes.blocks("ONNX Runtime")[0], onnxruntime=onnxruntime, numpy=numpy, graph=str(graph), ids=ids,
                path=out)
    return out


def openvino(hint):
    def make(path, folder):
        import openvino as package
        module, ids, out = Outputs(load(path)).eval(), ids_of(path), folder / "dump.npz"
        with torch.no_grad():
            module(ids)
            graph = package.convert_model(module, example_input=ids)
        for output, name in zip(graph.outputs, module.names):
            output.get_tensor().set_names({name})
        recipes.run(recipes.blocks("OpenVINO")[0], openvino=package, numpy=numpy, graph=graph, ids=ids, path=out,
                    hint=hint)
        return out
    return make


for name in ("llama", "gpt2", "bert", "qwen3", "gemma3"):
    recipe(f"onnxruntime_{name}", name, onnx)
    recipe(f"openvino_{name}_f32", name, openvino("f32"))
    recipe(f"openvino_{name}_bf16", name, openvino("bf16"), arguments=("--dtype", "bf16"))
for name, short in ((MINILM, "minilm"), (SMOLLM2, "smollm2")):
    recipe(f"onnxruntime_real_{short}", name, onnx)
    recipe(f"openvino_real_{short}_f32", name, openvino("f32"))
    recipe(f"openvino_real_{short}_bf16", name, openvino("bf16"), arguments=("--dtype", "bf16"))
