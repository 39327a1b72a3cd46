"""One tiny random model for each family and for each form of it that has rules of its own.

Sizes are unlike any released model's: H, K and E differ from each other, E from D/H where the class
allows it, F is odd, eps and every other number is not the default, every norm weight is its own, biases
are random, windows are shorter than the tokens. So a wrong default shows. Weights are such that
bfloat16 holds them.
"""

import inspect
from dataclasses import dataclass

import torch
import transformers as hf

from . import references
from .double import in_double
from .sites import LAYOUTS, Recorder, sizes_of

TOKENS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 38, 0, 17, 17, 40, 33, 2, 8, 12]
ENCODER_TOKENS = [7, 40, 2, 11, 5, 5, 23, 9]
PADDING_ID = 40  # of transformers' batches; that of mainstem's is another one
NO_IDS = dict(bos_token_id=None, eos_token_id=None, pad_token_id=None)


@dataclass
class Case:
    name: str
    layout: str  # of sites.LAYOUTS
    config: type
    changes: dict
    base_only: bool = False  # without a head
    golden: bool = True
    seed: int = 0
    sdpa: bool = False
    encoder: bool = False  # takes tokens of an encoder

    def make_config(self):
        config = self.config(**self.changes)
        config._attn_implementation = "sdpa" if self.sdpa else "eager"
        return config

    def make_model(self):
        torch.manual_seed(sum(self.name.encode()) + self.seed)
        model = self.auto_class().from_config(self.make_config()).eval()
        generator = torch.Generator().manual_seed(sum(self.name.encode()) * 31 + self.seed)
        with torch.no_grad():
            for name, parameter in sorted(model.named_parameters()):
                if parameter.requires_grad:  # Marian's sinusoids are not trained
                    parameter.copy_(random_weight(name, parameter.shape, generator))
            if hasattr(model, "final_logits_bias"):
                model.final_logits_bias.copy_(random_weight("bias", model.final_logits_bias.shape, generator))
        return model

    def auto_class(self):
        if self.encoder:
            return hf.AutoModelForSeq2SeqLM
        if self.base_only:
            return hf.AutoModel
        return hf.AutoModelForMaskedLM if self.layout == "bert" else hf.AutoModelForCausalLM

    def double_model(self, model):
        """The same weights in a model whose float32 islands are float64; inside in_double() only."""
        double = self.auto_class().from_config(self.make_config()).double().eval()
        fixed = {name for name, value in double.named_parameters() if not value.requires_grad}  # sinusoids
        state = {name: value for name, value in model.state_dict().items() if name not in fixed}
        missing, unexpected = double.load_state_dict(state, strict=False)
        assert set(missing) == fixed and not unexpected, (missing, unexpected)
        return double

    def record(self, model, tokens, types=None):
        """Every step of one pass over a list of tokens, by our names, as the model's dtype has it."""
        inputs = {"input_ids": torch.tensor([tokens])}
        if types:
            inputs["token_type_ids"] = torch.tensor([types])
        if self.encoder:
            inputs = {"input_ids": torch.tensor([ENCODER_TOKENS]), "decoder_input_ids": inputs["input_ids"]}
        return self.record_pass(model, inputs)

    def record_batch(self, model, sequences, encoder_sequences=()):
        """The same of a batch padded on the left, with mask and positions as generate() makes them."""
        ids, mask, positions = padded(sequences)
        if not self.encoder:
            # Without its own parameter for positions a class would count them in its own way.
            assert "position_ids" in inspect.signature(model.forward).parameters, self.name
            return self.record_pass(model, dict(input_ids=ids, attention_mask=mask, position_ids=positions))
        encoder_ids, encoder_mask, encoder_positions = padded(encoder_sequences)
        inputs = dict(input_ids=encoder_ids, attention_mask=encoder_mask, decoder_input_ids=ids,
                      decoder_attention_mask=mask)
        # Marian takes no positions: it counts columns, padding too, as it pads on the right. Its tables of sines
        # are read at our positions instead; all else is its own.
        hooks = [stack.embed_positions.register_forward_pre_hook(replace_positions(own), with_kwargs=True)
                 for stack, own in ((model.model.encoder, encoder_positions), (model.model.decoder, positions))]
        try:
            return self.record_pass(model, inputs)
        finally:
            for hook in hooks:
                hook.remove()

    @torch.no_grad()
    def record_pass(self, model, inputs):
        ids, mask = inputs["input_ids"], inputs.get("attention_mask")
        stacks = [(self.layout, "", ids)]
        if self.encoder:
            stacks = [("marian_encoder", "encoder.", ids), ("marian_decoder", "decoder.", inputs["decoder_input_ids"])]
        values, recorders = {}, []
        for layout, stack, stack_ids in stacks:
            sizes = sizes_of(model.config, stack_ids.shape[1])
            recorders.append(Recorder(model, LAYOUTS[layout], sizes, stack).__enter__())
        try:
            out = model(**inputs, use_cache=False) if self.layout != "bert" else model(**inputs)
        finally:
            for recorder in reversed(recorders):
                recorder.__exit__()
        for recorder, (_, _, stack_ids) in zip(recorders, stacks):
            recorder.complete(stack_ids, mask)
            values |= recorder.values
        if hasattr(out, "logits"):
            values["logits"] = out.logits
            values.setdefault("decoder.head" if self.encoder else "head", out.logits)
        return {name: value.numpy() for name, value in values.items()}

    def record_in_double(self, model, tokens, types=None):
        with in_double():
            return self.record(self.double_model(model), tokens, types)

    def record_batch_in_double(self, model, *sequences):
        with in_double():
            return self.record_batch(self.double_model(model), *sequences)


def padded(sequences):
    """Ids, mask and positions [B,T] of sequences padded on the left (generation/utils.py)."""
    length = max(map(len, sequences))
    ids = torch.tensor([[PADDING_ID] * (length - len(tokens)) + tokens for tokens in sequences])
    mask = torch.tensor([[0] * (length - len(tokens)) + [1] * len(tokens) for tokens in sequences])
    return ids, mask, (mask.cumsum(1) - 1).masked_fill(mask == 0, 0)


def replace_positions(positions):
    return lambda _, args, keywords: (args, keywords | {"position_ids": positions})


def random_weight(name, shape, generator):
    def normal():
        return torch.randn(shape, generator=generator, dtype=torch.float32)

    if "norm" in name.lower() or ".ln_" in name or name.startswith("ln_"):
        values = normal() * 0.3 if name.endswith("bias") else torch.rand(shape, generator=generator) + 0.5
    elif len(shape) == 1 or name.endswith("bias"):
        values = normal() * 0.3
    elif "emb" in name or ".wte" in name or ".wpe" in name or "shared" in name:
        values = normal()
    else:
        inputs = shape[0] if ".c_" in name and "h." in name else shape[-1]  # GPT-2's lie [in, out]
        values = normal() * 1.5 / inputs**0.5
    return values.bfloat16().float()


# D=12, H=4, K=2, E=6: HE is not D. Where the class has no head_dim: D=24. Shares of E that are
# no whole number are rounded down: 0.8 is 4 of 6.
SIZES = dict(vocab_size=41, hidden_size=12, intermediate_size=14, num_hidden_layers=2, num_attention_heads=4,
             max_position_embeddings=64, **NO_IDS)
GROUPED = dict(SIZES, num_key_value_heads=2, head_dim=6)
EVEN = dict(SIZES, hidden_size=24)
EVEN_GROUPED = dict(EVEN, num_key_value_heads=2)
FULL = "full_attention"
SLIDING = "sliding_attention"


def rope(theta, **more):
    return dict(rope_parameters=dict(rope_type="default", rope_theta=theta) | more)


def short(**more):
    """With the names of GPT-2 and GPT-J."""
    return dict(vocab_size=41, n_layer=2, n_positions=24, bos_token_id=None, eos_token_id=None, **more)


LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=32)
LONGROPE = dict(rope_type="longrope", short_factor=[1.0, 1.3, 2.0], long_factor=[1.5, 3.0, 7.0],
                original_max_position_embeddings=16)
GEMMA = dict(GROUPED, rms_norm_eps=3e-3)
FALCON = dict(vocab_size=41, hidden_size=24, ffn_hidden_size=14, num_hidden_layers=2, num_attention_heads=4,
              max_position_embeddings=64, layer_norm_epsilon=3e-3, **NO_IDS)
OPT = dict(vocab_size=41, hidden_size=12, ffn_dim=14, num_hidden_layers=2, num_attention_heads=4,
           max_position_embeddings=24, **NO_IDS)

CASES = [
    Case("llama", "llama", hf.LlamaConfig, GROUPED | rope(700.0, **LLAMA3) | dict(
        rms_norm_eps=3e-3, attention_bias=True, mlp_bias=True, tie_word_embeddings=False)),
    Case("llama_yarn", "llama", hf.LlamaConfig, GROUPED | rope(
        900.0, rope_type="yarn", factor=4.0, original_max_position_embeddings=16) | dict(
        rms_norm_eps=3e-3, tie_word_embeddings=True), golden=False),
    Case("llama_gelu", "llama", hf.LlamaConfig, GROUPED | rope(333.0, rope_type="linear", factor=3.0) | dict(
        num_key_value_heads=1, hidden_act="gelu", rms_norm_eps=3e-3), golden=False),
    Case("llama_all_heads", "llama", hf.LlamaConfig, GROUPED | rope(50.0) | dict(
        num_key_value_heads=4, rms_norm_eps=3e-3, tie_word_embeddings=False), golden=False),
    # Three query heads for each key head; sizes of which none divides another.
    Case("llama_thirds", "llama", hf.LlamaConfig, GROUPED | rope(700.0, **LLAMA3) | dict(
        hidden_size=48, intermediate_size=52, num_hidden_layers=3, num_attention_heads=6, head_dim=10,
        rms_norm_eps=3e-3, attention_bias=True, mlp_bias=True, tie_word_embeddings=False), golden=False),
    Case("mistral", "llama", hf.MistralConfig, GROUPED | rope(700.0) | dict(
        rms_norm_eps=3e-3, sliding_window=3)),
    Case("qwen2", "llama", hf.Qwen2Config, EVEN_GROUPED | rope(700.0) | dict(
        rms_norm_eps=3e-3, use_sliding_window=True, sliding_window=3, max_window_layers=1)),
    Case("qwen3", "qwen3", hf.Qwen3Config, GROUPED | rope(700.0) | dict(rms_norm_eps=3e-3)),
    Case("gemma", "llama", hf.GemmaConfig, GEMMA | rope(700.0)),
    Case("gemma2", "gemma2", hf.Gemma2Config, GEMMA | rope(700.0) | dict(
        sliding_window=3, query_pre_attn_scalar=13, attn_logit_softcapping=3.0, final_logit_softcapping=7.0)),
    Case("gemma3", "gemma3", hf.Gemma3TextConfig, GEMMA | dict(
        sliding_window=3, query_pre_attn_scalar=13, final_logit_softcapping=7.0,
        layer_types=[SLIDING, FULL], rope_parameters={
            FULL: dict(rope_type="linear", rope_theta=700.0, factor=4.0),
            SLIDING: dict(rope_type="default", rope_theta=90.0)})),
    Case("gemma3_pattern", "gemma3", hf.Gemma3TextConfig, GEMMA | dict(
        num_hidden_layers=7, sliding_window=5), golden=False),
    Case("gpt2", "gpt2", hf.GPT2Config, short(
        n_embd=12, n_head=4, n_inner=14, layer_norm_epsilon=3e-3, scale_attn_by_inverse_layer_idx=True)),
    Case("gpt2_unscaled", "gpt2", hf.GPT2Config, short(
        n_embd=12, n_head=4, layer_norm_epsilon=3e-3, scale_attn_weights=False, tie_word_embeddings=False,
        activation_function="relu"), golden=False),
    Case("gpt_neox", "gpt_neox", hf.GPTNeoXConfig, EVEN | rope(
        700.0, partial_rotary_factor=0.8) | dict(layer_norm_eps=3e-3)),
    Case("gpt_neox_sequential", "gpt_neox_sequential", hf.GPTNeoXConfig, EVEN | rope(
        700.0, partial_rotary_factor=0.8) | dict(
        layer_norm_eps=3e-3, use_parallel_residual=False, attention_bias=False)),
    Case("gptj", "gptj", hf.GPTJConfig, short(
        n_embd=24, n_head=4, n_inner=14, rotary_dim=4, layer_norm_epsilon=3e-3)),
    Case("opt", "opt", hf.OPTConfig, dict(OPT, word_embed_proj_dim=12)),
    Case("opt_post", "opt_post", hf.OPTConfig, dict(OPT, word_embed_proj_dim=10, do_layer_norm_before=False)),
    Case("falcon", "falcon", hf.FalconConfig, FALCON | rope(700.0)),
    Case("falcon_40b", "falcon_groups", hf.FalconConfig, FALCON | rope(700.0) | dict(
        num_kv_heads=2, new_decoder_architecture=True)),
    Case("falcon_11b", "falcon", hf.FalconConfig, FALCON | rope(700.0) | dict(
        num_kv_heads=2, new_decoder_architecture=True, num_ln_in_parallel_attn=1, bias=True)),
    Case("falcon_rw", "falcon_sequential", hf.FalconConfig, FALCON | dict(
        num_attention_heads=6, alibi=True, parallel_attn=False, multi_query=False, bias=True), sdpa=True),
    Case("stablelm", "stablelm", hf.StableLmConfig, EVEN_GROUPED | rope(
        700.0, partial_rotary_factor=0.8) | dict(use_qkv_bias=True, qk_layernorm=True, layer_norm_eps=3e-3)),
    Case("stablelm_parallel", "stablelm_parallel", hf.StableLmConfig, EVEN_GROUPED | rope(
        700.0, partial_rotary_factor=0.4) | dict(use_parallel_residual=True, layer_norm_eps=3e-3)),
    Case("olmo2", "olmo2", hf.Olmo2Config, GROUPED | rope(700.0) | dict(rms_norm_eps=3e-3)),
    Case("cohere", "cohere", hf.CohereConfig, GROUPED | rope(700.0) | dict(
        use_qk_norm=True, layer_norm_eps=3e-3, logit_scale=0.3)),
    Case("cohere2", "cohere2", hf.Cohere2Config, GROUPED | rope(700.0) | dict(
        layer_norm_eps=3e-3, sliding_window=3, logit_scale=0.3, layer_types=[SLIDING, FULL])),
    Case("cohere2_pattern", "cohere2", hf.Cohere2Config, GROUPED | rope(700.0) | dict(
        num_hidden_layers=5, layer_norm_eps=3e-3, sliding_window=5), golden=False),
    Case("phi", "phi", hf.PhiConfig, EVEN_GROUPED | rope(
        700.0, partial_rotary_factor=0.67) | dict(qk_layernorm=True, layer_norm_eps=3e-3)),
    Case("phi3", "phi3", hf.Phi3Config, EVEN_GROUPED | rope(700.0) | dict(rms_norm_eps=3e-3, sliding_window=3)),
    Case("phi3_longrope", "phi3", hf.Phi3Config, EVEN_GROUPED | rope(700.0, **LONGROPE) | dict(
        rms_norm_eps=3e-3, original_max_position_embeddings=16), golden=False),
    Case("granite", "llama", hf.GraniteConfig, EVEN_GROUPED | rope(700.0) | dict(
        rms_norm_eps=3e-3, embedding_multiplier=3.0, logits_scaling=2.5, residual_multiplier=0.3,
        attention_multiplier=0.2, attention_bias=True)),
    Case("starcoder2", "starcoder2", hf.Starcoder2Config, GROUPED | rope(700.0) | dict(
        norm_epsilon=3e-3, sliding_window=3)),
    Case("olmo", "llama", hf.OlmoConfig, GROUPED | rope(700.0) | dict(attention_bias=True)),
    Case("bert", "bert", hf.BertConfig, dict(SIZES, max_position_embeddings=24, type_vocab_size=3, layer_norm_eps=3e-3)),
    Case("bert_bare", "bert", hf.BertConfig, dict(SIZES, max_position_embeddings=24, layer_norm_eps=3e-3), base_only=True),
    Case("marian", "marian_decoder", hf.MarianConfig, dict(
        vocab_size=41, d_model=12, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=14, decoder_ffn_dim=14, scale_embedding=True,
        activation_function="swish", max_position_embeddings=64, pad_token_id=0, eos_token_id=0, bos_token_id=None,
        decoder_start_token_id=0, forced_eos_token_id=None), encoder=True),
    references.Palm("palm"),
    references.Palm("palm_rms", norm="rms", logit_scale=0.3, golden=False),
    references.Gpt3("gpt3", band=3),
    references.Gpt3("gpt3_dense", band=None, golden=False),
]


def is_decoder(case):
    return isinstance(case, Case) and not case.encoder and case.layout != "bert" and not case.base_only
