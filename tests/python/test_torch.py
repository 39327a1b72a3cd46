"""PyTorch: tensors without copies, and modules that run."""

import numpy as np
import pytest

import mainstem as ms

from conftest import FAMILIES

torch = pytest.importorskip("torch")
TOKENS = [3, 1, 4, 1, 5, 9, 2]


def hf_model(family="llama", **options):
    transformers = pytest.importorskip("transformers")
    return transformers.AutoModelForCausalLM.from_pretrained(FAMILIES / family, dtype=torch.float32, **options).eval()


# ------------------------------------------------------------------------------- blocks


@pytest.fixture
def x():
    return torch.randn((2, 5, 8), generator=torch.Generator().manual_seed(6))


def test_torch_weights_are_viewed(block_spec, block_weights, x):
    weights = {name: torch.nn.Parameter(torch.tensor(value)) for name, value in block_weights.items()}
    block = ms.Block(block_spec, weights)
    want = ms.Block(block_spec, block_weights).forward(x, compute="f64")
    assert (block.forward(x, compute="f64") == want).all()
    with torch.no_grad():
        weights["mlp_proj.weight"].zero_()
    assert (block.forward(x, compute="f64") == block.trace(x, "resid_mid", compute="f64")["resid_mid"]).all()


def test_bfloat16_weights(block_spec, block_weights, x):
    halves = {name: torch.tensor(value).bfloat16() for name, value in block_weights.items()}
    wide = {name: value.float().numpy() for name, value in halves.items()}
    got, want = (ms.Block(block_spec, each).forward(x, compute="f64") for each in (halves, wide))
    assert (got == want).all()


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm_first", [False, True])
def test_an_encoder_layer_is_a_block(activation, norm_first, x):
    torch.manual_seed(3)
    layer = torch.nn.TransformerEncoderLayer(
        8, 2, 12, activation=activation, norm_first=norm_first, batch_first=True, layer_norm_eps=1e-4
    ).eval()
    block = ms.Block.from_encoder_layer(layer)
    with torch.no_grad():
        want = layer(x).numpy()
        masked = layer(x, src_mask=torch.nn.Transformer.generate_square_subsequent_mask(5), is_causal=True).numpy()
    assert np.abs(block(x) - want).max() <= 2e-6 * np.abs(want).max()
    assert np.abs(ms.Block.from_encoder_layer(layer, causal=True)(x) - masked).max() <= 2e-6 * np.abs(want).max()
    assert block.spec.placement == ("pre" if norm_first else "post")
    with torch.no_grad():
        layer.linear2.weight.zero_()
    assert not np.array_equal(block.forward(x, compute="f64"), want)


def test_an_unknown_activation():
    layer = torch.nn.TransformerEncoderLayer(8, 2, 12, activation=torch.nn.functional.silu)
    with pytest.raises(ms.UsageError, match="relu or gelu"):
        ms.Block.from_encoder_layer(layer)


class Decoder(torch.nn.Module):
    """The block that people write first."""

    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = (torch.nn.RMSNorm(width, eps=1e-6) for _ in range(2))
        self.attn = torch.nn.MultiheadAttention(width, heads, batch_first=True)
        self.mlp = torch.nn.ModuleDict(
            {"w": torch.nn.Linear(width, 4 * width, bias=False), "w_out": torch.nn.Linear(2 * width, width, bias=False)}
        )

    def forward(self, x):
        n = self.norm1(x)
        mask = torch.nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        x = x + self.attn(n, n, n, attn_mask=mask, is_causal=True, need_weights=False)[0]
        gate, value = self.mlp["w"](self.norm2(x)).chunk(2, -1)
        return x + self.mlp["w_out"](torch.nn.functional.silu(gate) * value)


def test_a_decoder_block_by_its_state_dict(x):
    torch.manual_seed(4)
    module = Decoder(8, 2)
    block = ms.Block.from_decoder_block(module.state_dict(), width=8, heads=2)
    with torch.no_grad():
        want = module(x).numpy()
    assert np.abs(block(x) - want).max() <= 2e-6 * np.abs(want).max()
    state = module.state_dict()
    del state["norm2.weight"]
    with pytest.raises(ms.BadInputError, match="norm2.weight"):
        ms.Block.from_decoder_block(state, width=8, heads=2)


def test_ids_as_tensors(llama):
    ids = torch.tensor([TOKENS, TOKENS[::-1]])
    assert (llama.forward(ids) == llama.forward(ids.tolist())).all()
    assert (llama.forward([ids[0, i] for i in range(7)]) == llama.forward(TOKENS)).all()


# -------------------------------------------------------------------------------- dumps


def test_dicts_of_tensors_in_any_type(llama):
    trace = llama.trace(TOKENS, mistake="rope.pairing@1").values_once()
    wide = {name: torch.tensor(value) for name, value in trace.items()}
    assert ms.diff(llama, wide).wrong == ["blocks.1.q_rot", "blocks.1.k_rot"]
    turned = {name: value.transpose(-1, -2).contiguous().transpose(-1, -2) for name, value in wide.items()
              if value.ndim > 2}  # fmt: skip
    assert not turned["blocks.1.q"].is_contiguous()
    assert ms.diff(llama, turned, tokens=TOKENS).wrong == ["blocks.1.q_rot", "blocks.1.k_rot"]
    halves = {name: value.bfloat16() if value.is_floating_point() else value for name, value in wide.items()}
    assert ms.diff(llama, halves).arithmetic == "bf16"


# -------------------------------------------------------------------------------- check


def test_a_sound_module_matches(llama):
    report = ms.check(hf_model(), llama, TOKENS)
    assert report.matches and report.causes == [] and report.unmapped == []
    judged = {step.site for step in report.steps}
    for layer in range(2):
        for step in ("q", "k", "v", "attn_mix", "attn_proj", "mlp_gate", "mlp_act", "mlp_hidden", "resid_post"):
            assert f"blocks.{layer}.{step}" in judged
    assert {"blocks.0.q_rot", "blocks.0.k_rot", "head"} <= judged


def test_eager_attention_gives_the_pattern(llama):
    dump = ms.record(hf_model(attn_implementation="eager"), llama, TOKENS)
    want = llama.trace(TOKENS, "blocks.*.pattern")
    assert np.abs(dump["blocks.1.pattern"].numpy() - want["blocks.1.pattern"]).max() < 1e-5


@pytest.fixture
def translator():
    transformers = pytest.importorskip("transformers")
    folder = FAMILIES / "marian"
    return transformers.AutoModelForSeq2SeqLM.from_pretrained(folder, dtype=torch.float32).eval()


def test_an_encoder_decoder(translator):
    model = ms.load(FAMILIES / "marian")
    decoder_ids = [0, 7, 8, 9]
    dump = ms.record(translator, model, TOKENS, decoder_ids=decoder_ids)
    assert dump["encoder.tokens"].tolist() == [TOKENS]
    assert dump["decoder.tokens"].tolist() == [decoder_ids]
    report = ms.check(translator, model, TOKENS, decoder_ids=decoder_ids)
    assert report.matches, report
    judged = {step.site for step in report.steps}
    assert {"encoder.blocks.1.resid_post", "decoder.blocks.0.cross_q", "decoder.blocks.1.resid_post"} <= judged
    # The start token alone; and in other ways of calling.
    assert ms.check(translator, model, TOKENS).matches
    turned = ms.record(
        translator,
        model,
        TOKENS,
        decoder_ids=decoder_ids,
        forward=lambda module, ids, start: module(input_ids=ids, decoder_input_ids=start),
    )
    assert (turned["logits"] == dump["logits"]).all()
    with torch.no_grad():
        translator.model.decoder.layers[1].encoder_attn.k_proj.bias.zero_()
    report = ms.check(translator, model, TOKENS, decoder_ids=decoder_ids)
    assert report.wrong == ["decoder.blocks.1.cross_k"]
    assert (report.causes[0].id, report.causes[0].status) == ("bias.missing", "proved")


def test_modules_and_models_are_told_apart(llama):
    with pytest.raises(ms.UsageError, match="module: expected a torch.nn.Module, got int"):
        ms.check(3, llama, TOKENS)
    with pytest.raises(ms.UsageError, match="model: expected a Model"):
        ms.check(llama, torch.nn.Linear(2, 2), TOKENS)


def test_decoder_ids_need_a_decoder(llama):
    with pytest.raises(ms.UsageError, match="decoder_ids"):
        ms.check(hf_model(), llama, TOKENS, decoder_ids=[1])


def test_a_wrong_module_is_diagnosed(llama, monkeypatch):
    module = hf_model()
    from transformers.models.llama import modeling_llama

    def interleaved(x):
        return torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)

    def wrong(q, k, cos, sin, unsqueeze_dim=1):
        cos, sin = (each[..., : each.shape[-1] // 2].repeat_interleave(2, -1).unsqueeze(1) for each in (cos, sin))
        return q * cos + interleaved(q) * sin, k * cos + interleaved(k) * sin

    monkeypatch.setattr(modeling_llama, "apply_rotary_pos_emb", wrong)
    report = ms.check(module, llama, torch.tensor([TOKENS]))
    assert report.first.site == "blocks.0.q_rot"
    assert [(cause.id, cause.status) for cause in report.causes] == [("rope.pairing", "proved")]


def test_a_changed_weight_is_found_in_its_step(llama):
    module = hf_model()
    with torch.no_grad():
        module.model.layers[1].mlp.down_proj.weight[3] = 0
    report = ms.check(module, llama, TOKENS)
    assert report.first.site == "blocks.1.mlp_proj"
    assert not [cause for cause in report.causes if cause.status == "proved"]


def test_nothing_stays_behind(llama):
    module = hf_model()
    from transformers.modeling_utils import AttentionInterface

    before = AttentionInterface.get_interface
    module.train()

    def fails(*_):
        raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError, match="in the middle"):
        ms.check(module, llama, TOKENS, forward=fails)
    ms.record(module, llama, TOKENS)
    assert AttentionInterface.get_interface is before and module.training
    assert not any(child._forward_hooks or child._forward_pre_hooks for child in module.modules())


class Own(torch.nn.Module):
    """One's own block over a model's first norm and products, under names that nobody knows."""

    def __init__(self, model):
        super().__init__()
        layer = model.model.layers[0]
        self.embedding, self.norm = model.model.embed_tokens, layer.input_layernorm
        self.query, self.key = layer.self_attn.q_proj, layer.self_attn.k_proj

    def forward(self, ids):
        normed = self.norm(self.embedding(ids))
        return self.query(normed), self.key(normed)


def test_a_class_of_ones_own_with_a_map(llama):
    module = Own(hf_model())
    names = {"norm": "blocks.0.attn_norm", "norm.input": "blocks.0.resid_pre", "query": "blocks.0.q",
             "key": "blocks.0.k"}  # fmt: skip
    assert ms.check(module, llama, TOKENS, map=names).matches
    with torch.no_grad():
        module.key.bias += 1
    assert ms.check(module, llama, TOKENS, map=names).wrong == ["blocks.0.k"]


def test_a_map_for_every_block(llama):
    class Streams(torch.nn.Module):
        def __init__(self, model):
            super().__init__()
            self.embedding, self.tables = model.model.embed_tokens, model.model.rotary_emb
            self.steps, self.norm = model.model.layers, model.model.norm

        def forward(self, ids):
            stream = self.embedding(ids)
            turns = self.tables(stream, torch.arange(ids.shape[1])[None])
            mask = torch.full((1, 1, ids.shape[1], ids.shape[1]), -torch.inf).triu(1)
            for step in self.steps:
                stream = step(stream, position_embeddings=turns, attention_mask=mask)
            return self.norm(stream)

    module = Streams(hf_model())
    names = {"steps.*.mlp": "blocks.*.mlp_proj", "steps.*.post_attention_layernorm.input": "blocks.*.resid_mid"}
    report = ms.check(module, llama, TOKENS, map=names)
    assert report.matches
    sites = ["blocks.0.resid_mid", "blocks.0.mlp_proj", "blocks.1.resid_mid", "blocks.1.mlp_proj"]
    assert [step.site for step in report.steps] == sites
    with torch.no_grad():
        module.steps[1].mlp.down_proj.weight *= 2
    assert ms.check(module, llama, TOKENS, map=names).wrong == ["blocks.1.mlp_proj"]


def test_values_are_copied_when_they_are_made(llama):
    class InPlace(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.same = torch.nn.Embedding(41, 4), torch.nn.Identity()

        def forward(self, ids):
            x = self.same(self.embedding(ids))
            x += 1
            return x

    module = InPlace()
    dump = ms.record(module, llama, TOKENS)
    assert torch.equal(dump["embedding"][0], module.embedding.weight[TOKENS])
    assert torch.equal(dump["output"], dump["embedding"] + 1)


def test_a_module_that_is_called_twice_is_left_out(llama):
    class Twice(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.shared = torch.nn.Embedding(41, 4), torch.nn.Tanh()

        def forward(self, ids):
            return self.shared(self.shared(self.embedding(ids)))

    dump = ms.record(Twice(), llama, TOKENS)
    assert set(dump) == {"embedding", "output", "tokens"}


def test_sequences_of_several_lengths_are_refused(llama):
    with pytest.raises(ms.UsageError, match="one length"):
        ms.record(torch.nn.Identity(), llama, [[1], [1, 2]])
