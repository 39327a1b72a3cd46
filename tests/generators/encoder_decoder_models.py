"""Tiny random encoder-decoders, and encoders, of transformers and torch.nn, and their values at
every named step. Used by make_encoder_decoder.py and tests/parity/encoder_decoder_parity.py.

Their numbers are unlike those of any default: heads of encoder and decoder differ where they can,
every norm weight is random, eps is large, biases are everywhere (or nowhere).
"""

import copy
import json

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn
from transformers import MarianConfig, MarianMTModel
from transformers.models.marian import modeling_marian

TOKENS = [3, 1, 4, 1, 5, 9, 2, 6]
DECODER_TOKENS = [28, 2, 7, 1, 8]


def randomise(module, seed, spread=0.6):
    """The same numbers whatever order the parameters are made in."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in sorted(module.named_parameters()):
            if not parameter.requires_grad:
                continue
            values = torch.randn(parameter.shape, generator=generator)
            if "norm" not in name:
                parameter.copy_(values * spread)
            elif name.endswith("weight"):
                parameter.copy_(values.abs() + 0.3)
            else:  # small, or the model would always say the same
                parameter.copy_(values * 0.1)
    return module.eval()


class Recorder:
    """Keeps what hooks see, by site."""

    def __init__(self):
        self.values, self.handles = {}, []

    def keep(self, site, value, heads=None):
        value = value.detach().double()
        self.values[site] = (value.unflatten(-1, (heads, -1)) if heads else value).contiguous().clone()

    def output(self, module, *sites, heads=None):
        def hook(_, __, value):
            value = value[0] if isinstance(value, tuple) else value
            for site in sites:
                self.keep(site, value, heads)
        self.handles.append(module.register_forward_hook(hook))

    def given(self, module, *sites, heads=None):
        def hook(_, args):
            for site in sites:
                self.keep(site, args[0], heads)
        self.handles.append(module.register_forward_pre_hook(hook))

    def close(self):
        for handle in self.handles:
            handle.remove()


# ---------------------------------------------------------------------------- Marian

MARIAN = dict(
    vocab_size=29, d_model=12, encoder_layers=1, decoder_layers=2, encoder_attention_heads=2,
    decoder_attention_heads=3, encoder_ffn_dim=10, decoder_ffn_dim=14, max_position_embeddings=32,
    pad_token_id=28, decoder_start_token_id=28, eos_token_id=7, forced_eos_token_id=None,
    scale_embedding=True, activation_function="swish",
)


def marian(seed=1, **changes):
    config = MarianConfig(**{**MARIAN, **changes})
    config._attn_implementation = "eager"
    model = randomise(MarianMTModel(config), seed)
    generator = torch.Generator().manual_seed(seed)
    bias = torch.randn(model.final_logits_bias.shape, generator=generator) * 0.2
    bias[0, config.pad_token_id] = 3.0  # it would win, were it not forbidden
    model.final_logits_bias.copy_(bias)
    with torch.no_grad():  # else the last token would be the likeliest next one
        model.model.shared.weight *= 0.25
    # No padding, as Marian's files have it, and no token twice in a row: a random model likes that.
    model.generation_config.bad_words_ids = [[config.pad_token_id]] + [[i, i] for i in range(config.vocab_size)]
    return model


def marian_in_double(model):
    """The table of sines in double too: it is kept in float32."""
    model = copy.deepcopy(model).double()
    for stack in (model.model.encoder, model.model.decoder):
        table = stack.embed_positions.weight
        rows, width = table.shape
        angles = np.arange(rows)[:, None] / 10000.0 ** (2 * np.arange(width // 2) / width)
        table.data = torch.from_numpy(np.concatenate([np.sin(angles), np.cos(angles)], 1))
    return model


def watch_marian_stack(recorder, stack, name, heads, attentions):
    recorder.handles.append(stack.embed_positions.register_forward_hook(
        lambda _, __, value: recorder.keep(name + "pos_embed", value[None])))
    recorder.given(stack.layers[0], name + "embed")
    for number, layer in enumerate(stack.layers):
        at = f"{name}blocks.{number}."
        kinds = [("", "attn", layer.self_attn)]
        last = "resid_mid"
        if hasattr(layer, "encoder_attn"):
            kinds.append(("cross_", "cross_attn", layer.encoder_attn))
            recorder.given(layer.encoder_attn_layer_norm, at + "cross_attn_sum")
            recorder.output(layer.encoder_attn_layer_norm, at + "resid_mid")
            last = "cross_resid_pre"
        for prefix, attn, module in kinds:
            attentions[id(module)] = at + prefix
            recorder.output(module.q_proj, at + prefix + "q", heads=heads)
            recorder.output(module.k_proj, at + prefix + "k", heads=heads)
            recorder.output(module.v_proj, at + prefix + "v", heads=heads)
            recorder.given(module.out_proj, at + attn + "_mix", heads=heads)
            recorder.output(module.out_proj, at + attn + "_proj", at + attn + "_out")
        recorder.given(layer.self_attn_layer_norm, at + "attn_sum")
        recorder.output(layer.self_attn_layer_norm, at + last)
        recorder.given(layer, at + "resid_pre")
        recorder.output(layer.fc1, at + "mlp_pre")
        recorder.given(layer.fc2, at + "mlp_act", at + "mlp_hidden")
        recorder.output(layer.fc2, at + "mlp_proj", at + "mlp_out")
        recorder.given(layer.final_layer_norm, at + "mlp_sum")
        recorder.output(layer, at + "resid_post")


@torch.no_grad()
def marian_sites(model, tokens, decoder_tokens):
    recorder, attentions = Recorder(), {}
    core, config = model.model, model.config
    for stack, name in ((core.encoder, "encoder."), (core.decoder, "decoder.")):
        recorder.output(stack.embed_tokens, name + "token_embed")
    watch_marian_stack(recorder, core.encoder, "encoder.", config.encoder_attention_heads, attentions)
    watch_marian_stack(recorder, core.decoder, "decoder.", config.decoder_attention_heads, attentions)
    eager = modeling_marian.eager_attention_forward

    def attention(module, query, key, value, mask, scaling=None, **rest):
        at = attentions[id(module)]
        recorder.keep(at + "scores", query @ key.transpose(2, 3) * query.shape[-1] ** -0.5)
        out, pattern = eager(module, query, key, value, mask, scaling, **rest)
        recorder.keep(at + "pattern", pattern)
        return out, pattern

    modeling_marian.eager_attention_forward = attention
    try:
        logits = model(input_ids=torch.tensor([tokens]), decoder_input_ids=torch.tensor([decoder_tokens]),
                       use_cache=False).logits
    finally:
        modeling_marian.eager_attention_forward = eager
        recorder.close()
    recorder.keep("logits", logits)
    recorder.keep("decoder.head", logits)
    # Both stacks share one module, so the hook saw the decoder's rows last.
    recorder.keep("encoder.token_embed", core.shared(torch.tensor([tokens])))
    return recorder.values


# ---------------------------------------------------------------------------- torch.nn

def sinusoid(rows, width, dtype):
    angles = np.arange(rows)[:, None] / 10000.0 ** (2 * np.arange(width // 2) / width)
    table = np.stack([np.sin(angles), np.cos(angles)], -1).reshape(rows, -1)
    return torch.from_numpy(table).to(dtype)


class Translator(nn.Module):
    """nn.Transformer as the annotated papers and tutorials use it."""

    def __init__(self, vocab, width, heads, layers, hidden, bias=True, **options):
        super().__init__()
        self.embedding = nn.Embedding(vocab, width)
        self.transformer = nn.Transformer(width, heads, *layers, hidden, dropout=0.0, batch_first=True,
                                          bias=bias, **options)
        self.head = nn.Linear(width, vocab)

    def embed(self, ids):
        x = self.embedding(ids) * self.embedding.embedding_dim ** 0.5
        return x + self.positions(ids)

    def positions(self, ids):
        return sinusoid(ids.shape[1], self.embedding.embedding_dim, self.head.weight.dtype)

    def forward(self, ids, decoder_ids):
        mask = nn.Transformer.generate_square_subsequent_mask(decoder_ids.shape[1], dtype=self.head.weight.dtype)
        return self.head(self.transformer(self.embed(ids), self.embed(decoder_ids), tgt_mask=mask,
                                          tgt_is_causal=True))


class LanguageModel(nn.Module):
    """An nn.TransformerEncoder with a causal mask; learned positions; the head is the table."""

    def __init__(self, vocab, width, heads, layers, hidden, final_norm, length=16, **options):
        super().__init__()
        self.tokens = nn.Embedding(vocab, width)
        self.places = nn.Embedding(length, width)
        layer = nn.TransformerEncoderLayer(width, heads, hidden, dropout=0.0, batch_first=True, **options)
        norm = nn.LayerNorm(width, eps=options["layer_norm_eps"]) if final_norm else None
        self.encoder = nn.TransformerEncoder(layer, layers, norm=norm, enable_nested_tensor=False)

    def forward(self, ids, _):
        x = self.tokens(ids) + self.positions(ids)
        mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1], dtype=x.dtype)
        return self.encoder(x, mask=mask, is_causal=True) @ self.tokens.weight.T

    def positions(self, ids):
        return self.places(torch.arange(ids.shape[1]))


class Layers(nn.Module):
    """A list of layers that a module runs itself, without positions and head."""

    def __init__(self, vocab, width, heads, layers, hidden, **options):
        super().__init__()
        self.embedding = nn.Embedding(vocab, width)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(width, heads, hidden, dropout=0.0, batch_first=True, **options)
            for _ in range(layers))

    def forward(self, ids, _):
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x)
        return x


def attention_sites(recorder, module, at, prefix, attn):
    """nn.MultiheadAttention shows only its result: the rest is computed again from its inputs, and
    the result compared."""
    heads = module.num_heads

    def hook(_, args, kwargs, output):
        query, key, value = args
        width = query.shape[-1]
        weights = module.in_proj_weight.split(width)
        biases = (None,) * 3 if module.in_proj_bias is None else module.in_proj_bias.split(width)
        q, k, v = (nn.functional.linear(x, w, b).unflatten(-1, (heads, -1))
                   for x, w, b in zip((query, key, value), weights, biases))
        scores = torch.einsum("bthe,bshe->bhts", q, k) * (width // heads) ** -0.5
        mask = kwargs.get("attn_mask")
        pattern = (scores if mask is None else scores + mask).softmax(-1)
        mix = torch.einsum("bhts,bshe->bthe", pattern, v)
        projected = module.out_proj(mix.flatten(-2))
        got = output[0]
        assert (projected - got).abs().max() <= 3e-5 * got.abs().max(), at
        for site, tensor in (("q", q), ("k", k), ("v", v), ("scores", scores), ("pattern", pattern)):
            recorder.keep(at + prefix + site, tensor)
        recorder.keep(f"{at}{attn}_mix", mix)
        recorder.keep(f"{at}{attn}_proj", got)
        recorder.keep(f"{at}{attn}_out", got)

    recorder.handles.append(module.register_forward_hook(hook, with_kwargs=True))


def watch_torch_layers(recorder, layers, name):
    recorder.given(layers[0], name + "embed")
    for number, layer in enumerate(layers):
        at = f"{name}blocks.{number}."
        recorder.given(layer, at + "resid_pre")
        recorder.output(layer, at + "resid_post")
        parts = ["attn", "mlp"]
        stream = ["resid_mid", None]  # what follows each sub-layer
        attention_sites(recorder, layer.self_attn, at, "", "attn")
        if hasattr(layer, "multihead_attn"):
            parts, stream = ["attn", "cross_attn", "mlp"], ["cross_resid_pre", "resid_mid", None]
            attention_sites(recorder, layer.multihead_attn, at, "cross_", "cross_attn")
        norms = [layer.norm1, layer.norm2, getattr(layer, "norm3", None)]
        for i, (part, norm) in enumerate(zip(parts, norms)):
            if layer.norm_first:
                recorder.output(norm, f"{at}{part}_norm")
                if i > 0:
                    recorder.given(norm, at + stream[i - 1])
            else:
                recorder.given(norm, f"{at}{part}_sum")
                if stream[i]:
                    recorder.output(norm, at + stream[i])
        recorder.output(layer.linear1, at + "mlp_pre")
        recorder.given(layer.linear2, at + "mlp_act", at + "mlp_hidden")
        recorder.output(layer.linear2, at + "mlp_proj", at + "mlp_out")


@torch.no_grad()
def torch_sites(module, tokens, decoder_tokens):
    """Sites of one pass; the result without hooks, where torch takes its fast path, must be equal."""
    ids, decoder_ids = torch.tensor([tokens]), torch.tensor([decoder_tokens])
    fast = module(ids, decoder_ids)
    recorder = Recorder()
    if hasattr(module, "transformer"):
        stacks = ((module.transformer.encoder, "encoder.", ids),
                  (module.transformer.decoder, "decoder.", decoder_ids))
    else:
        stacks = ((getattr(module, "encoder", module), "", ids),)
    for stack, name, tokens in stacks:
        table = getattr(module, "tokens", None) or module.embedding
        recorder.keep(name + "token_embed", table(tokens))
        if hasattr(module, "positions"):
            recorder.keep(name + "pos_embed", module.positions(tokens)[None])
        watch_torch_layers(recorder, stack.layers if hasattr(stack, "layers") else stack.blocks, name)
        if getattr(stack, "norm", None) is not None:
            recorder.output(stack.norm, name + "final_norm")
    output = module(ids, decoder_ids)
    recorder.close()
    difference = (output - fast).abs().max() / output.abs().max()
    assert difference <= (1e-12 if output.dtype == torch.float64 else 2e-5), difference
    if not isinstance(module, Layers):
        recorder.keep("logits", output)
        recorder.keep(stacks[-1][1] + "head", output)
    return recorder.values


def torch_case(name):
    """A module and the config.json that describes it."""
    about = dict(model_type="torch_transformer", vocab_size=29, d_model=12, nhead=3, dim_feedforward=20)
    if name == "translator":
        module = Translator(29, 12, 3, (2, 1), 20, layer_norm_eps=2e-3)
        about |= dict(num_encoder_layers=2, num_decoder_layers=1, layer_norm_eps=2e-3, scale_embedding=True)
    elif name == "translator_norm_first":
        module = Translator(29, 12, 3, (1, 2), 20, bias=False, norm_first=True, activation="gelu")
        about |= dict(num_encoder_layers=1, num_decoder_layers=2, bias=False, norm_first=True, activation="gelu",
                      scale_embedding=True, max_len=64)
    elif name in ("language_model", "language_model_post"):
        first = name == "language_model"
        module = LanguageModel(29, 12, 3, 2, 20, first, norm_first=first, layer_norm_eps=2e-3,
                               activation="gelu" if first else "relu")
        about |= dict(num_encoder_layers=2, causal=True, norm_first=first, activation="gelu" if first else "relu",
                      layer_norm_eps=2e-3, positions="learned", max_len=16, encoder_final_norm=first,
                      head_kind="tied",
                      names=dict(encoder_embedding="tokens", encoder_positions="places"))
    else:
        module = Layers(29, 12, 4, 2, 10, norm_first=name == "layers_norm_first")
        about |= dict(num_encoder_layers=2, nhead=4, dim_feedforward=10, norm_first=name == "layers_norm_first",
                      positions="none", head_kind="none", names=dict(encoder_layers="blocks"))
    return randomise(module, sum(name.encode())), about


TORCH_CASES = ("translator", "translator_norm_first", "language_model", "language_model_post", "layers",
               "layers_norm_first")


def save_torch(module, about, folder):
    folder.mkdir(parents=True, exist_ok=True)
    save_file(module.float().state_dict(), folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(about, indent=2, sort_keys=True) + "\n")
