"""Tokens, embeddings, head."""

import torch

import models
from mistakes import mistake

# Kinds of dumps that hold embeddings: without them other ids are past recognition.
EMBEDDINGS = ("ours", "hf", "modules")


def scaled(tiny):
    return tiny.name in ("gemma", "gemma2", "gemma3")


@mistake("input.tokens", "token_embed", where=None, report="T4", dumps=EMBEDDINGS)
def one_id_differs(patient, layers):
    patient.claimed = patient.tokens
    changed = list(patient.tokens[0])
    changed[4] = 55
    patient.tokens = [changed]


@mistake("input.tokens", "token_embed", where=None, report="T1", dumps=EMBEDDINGS)
def begin_token_missing(patient, layers):
    patient.claimed = patient.tokens
    patient.tokens = [models.TOKENS[1:] + [17]]


@mistake("input.tokens", "token_embed", where=None, report="T3", dumps=EMBEDDINGS)
def begin_token_twice(patient, layers):
    patient.claimed = patient.tokens
    patient.tokens = [models.TOKENS[:1] + models.TOKENS[:-1]]


@mistake("input.tokens", "token_embed", where=None, report="T5", dumps=EMBEDDINGS)
def space_behind_special_tokens(patient, layers):
    patient.claimed = patient.tokens
    patient.tokens = [models.TOKENS[:3] + [57] + models.TOKENS[3:8] + [57] + models.TOKENS[8:-2]]


@mistake("embed.scale", "embed", on=scaled, where=None, report="E2")
def embedding_scale_missing(patient, layers):
    patient.patch(lambda model: model.model.embed_tokens.embed_scale.fill_(1.0))


@mistake("embed.scale", "embed", on=scaled, where=None)
def embedding_scale_twice(patient, layers):
    patient.patch(lambda model: model.model.embed_tokens.embed_scale.mul_(48**0.5))


@mistake("embed.scale", "embed", on=lambda tiny: tiny.name == "granite", where=None, report="E8")
def embedding_multiplier_missing(patient, layers):
    patient.config.embedding_multiplier = 1.0


@mistake("embed.scale", "token_embed", on=lambda tiny: tiny.name in ("llama", "llama3", "mistral", "qwen3", "olmo2", "cohere",
                                                               "stablelm", "gpt_neox"), where=None)
def embedding_scale_invented(patient, layers):
    def apply(model):
        embedding = model.get_input_embeddings()
        embedding.forward = lambda ids: torch.nn.functional.embedding(ids, embedding.weight) * 48**0.5
    patient.patch(apply)


def learned(tiny):
    return tiny.name in ("gpt2", "opt", "bert")


@mistake("embed.position_offset", "pos_embed", on=lambda tiny: tiny.name in ("gpt2", "bert"), where=None, report="E4")
def position_rows_shifted(patient, layers):
    patient.shift_positions = 2


@mistake("embed.position_offset", "pos_embed", on=lambda tiny: tiny.name == "opt", where=None, report="E3")
def unused_rows_forgotten(patient, layers):
    def apply(model):
        module = model.model.decoder.embed_positions
        original = module.forward

        def forward(*args, **keywords):
            module.offset = 0
            return original(*args, **keywords)
        module.forward = forward
    patient.patch(apply)


@mistake("embed.position_kind", "pos_embed", on=lambda tiny: tiny.name == "gpt2", where=None)
def sinusoids_for_learned(patient, layers):
    def forward(ids):
        half = torch.arange(24, dtype=torch.float32)
        angles = ids[..., None] * 10000.0 ** (-2 * half / 48)
        return torch.stack((angles.sin(), angles.cos()), -1).flatten(-2).to(patient.dtype)
    patient.forward_of("wpe", lambda *_: forward)


@mistake("embed.token_type", "type_embed", on=lambda tiny: tiny.name == "bert", where=None, report="E5")
def second_type_for_first(patient, layers):
    patient.forward_of("embeddings.token_type_embeddings", lambda module, original: lambda ids: original(ids + 1))


@mistake("embed.token_type", "type_embed", on=lambda tiny: tiny.name == "bert", where=None)
def type_not_added(patient, layers):
    patient.forward_of("embeddings.token_type_embeddings", lambda module, original: lambda ids: original(ids) * 0)


@mistake("head.final_norm", "head", on=lambda tiny: bool(tiny.final), where=None, report="N18")
def head_before_final_norm(patient, layers):
    def apply(model):
        norm = model.base_model.get_submodule(patient.tiny.final)
        norm.forward = lambda x: x + 0
    patient.patch(apply)
    patient.after.append(drop_final_norm(patient))


def drop_final_norm(patient):
    def after(sites, modules):
        sites.pop("final_norm", None)
        for name in list(modules):
            if name.removesuffix(".input").endswith(patient.tiny.final) and ".layers." not in name:
                del modules[name]
    return after


@mistake("head.final_norm", "final_norm", on=lambda tiny: bool(tiny.final), where=None, also=("norm.missing",))
def final_norm_does_nothing(patient, layers):
    patient.forward_of(patient.tiny.final, lambda module, _: lambda x: x + 0)


UNTIED = ("llama", "mistral", "qwen2", "qwen3", "gpt_neox", "phi3", "olmo2", "granite", "stablelm")


@mistake("head.tied", "head", on=lambda tiny: tiny.name in UNTIED, where=None, report="E6")
def head_of_the_embedding(patient, layers):
    table = patient.weight_name("embed_in" if "neox" in patient.tiny.name else "embed_tokens")
    head = [name for name in patient.weights if name in ("lm_head.weight", "embed_out.weight")][0]
    patient.weights[head] = patient.weights[table].clone()


@mistake("unknown", "head", on=lambda tiny: tiny.name in UNTIED, where=None)
def random_head(patient, layers):
    head = [name for name in patient.weights if name in ("lm_head.weight", "embed_out.weight")][0]
    generator = torch.Generator().manual_seed(9)
    patient.weights[head] = torch.randn(patient.weights[head].shape, generator=generator).bfloat16().float() * 0.25


@mistake("head.softcap", "logits", on=lambda tiny: tiny.name in ("gemma2", "gemma3"), where=None)
def final_cap_missing(patient, layers):
    def apply(model):
        model.config.final_logit_softcapping = None
    patient.patch(apply)


@mistake("head.softcap", "logits", on=lambda tiny: tiny.name in ("gemma2", "gemma3"), where=None)
def final_cap_of_another_model(patient, layers):
    def apply(model):
        model.config.final_logit_softcapping = 0.5
    patient.patch(apply)


@mistake("head.scale", "logits", on=lambda tiny: tiny.name in ("cohere", "cohere2"), where=None)
def logit_scale_missing(patient, layers):
    patient.config.logit_scale = 1.0


@mistake("head.scale", "logits", on=lambda tiny: tiny.name in ("cohere", "cohere2"), where=None)
def logits_divided(patient, layers):
    patient.config.logit_scale = 1 / 0.3


@mistake("head.scale", "logits", on=lambda tiny: tiny.name == "granite", where=None, report="E8")
def logits_not_divided(patient, layers):
    patient.config.logits_scaling = 1.0


@mistake("head.scale", "logits", on=lambda tiny: tiny.name == "granite", where=None)
def logits_multiplied(patient, layers):
    patient.config.logits_scaling = 1 / 2.5

