"""The public cases, by the sections of what people got wrong."""

import texts
from passes import anchored_at_the_first_key
from rows import change_config, kit, own_tokens, pair, passes, refused, sound, states, tokens

LLAMA_CPP, HF, VLLM = "ggml-org/llama.cpp", "huggingface/transformers", "vllm-project/vllm"

# ------------------------------------------------------------------ norm

kit("N1", f"{LLAMA_CPP}#2374", "eps fixed at Llama 1's 1e-6", "eps_of_llama_1", "llama")
kit("N2", "Lightning-AI/lit-llama#339", "eps 1e-5 for a checkpoint with 1e-6", "eps_of_llama_2", "llama1")
kit("N3", "apache/tvm#15856", "a kernel with its own eps", "eps_constant_in_kernel", "mistral")
kit("N5", "mindspore-lab/mindone#225", "the framework's default eps 1e-7 in LayerNorm", "eps_of_a_framework", "gpt2")
kit("N6", "tracel-ai/burn#2185", "eps added to the standard deviation", "eps_outside_root", "bert")
kit("N7", "allenai/allennlp#953", "variance divided by n - 1", "bessel", "gpt2")
kit("N8", "131250208/TPlinker-joint-extraction#37", "divided by the square of var + eps", "divided_by_the_square", "gpt2")
kit("N9", "pytorch/executorch#19901", "w for 1 + w", "offset_missing", "gemma")
kit("N10", f"utensils/mold#1074, {VLLM}#31464", "1 added to weights that hold it already", "offset_twice", "gemma")
# Both orders of rounding are in use, so each is sound within the envelope of the type; in float32 nothing differs.
sound("N12", f"{HF}#29402", "rounded to bf16 before the weight", "every_norm_rounds_first", "gemma", dtype="bf16")
sound("N12", f"{HF}#29402", "the same in float32", "every_norm_rounds_first", "gemma")
sound("N13", f"{VLLM}#42379", "multiplied in float32, then rounded", "every_norm_rounds_last", "llama", dtype="bf16",
      says={"notes": "norm.cast_order"})
sound("N13", f"{VLLM}#42379", "the same in float32", "every_norm_rounds_last", "llama")
kit("N15", "meta-pytorch/torchtune#2850", "norms before and behind the MLP exchanged", "mlp_norms_exchanged", "gemma2")
kit("N16", "NVIDIA-NeMo/Speech#11951", "the norm before the MLP reads post_attention_layernorm", "mlp_norm_from_attention",
    "gemma2")
kit("N18", "vllm-project/speculators#313", "head applied before the last norm", "head_before_final_norm", "llama")
states("N19", "zai-org/ChatGLM3#1066", "the last of hidden_states is normed", True)
states("N19", f"{HF}#26142", "the last of hidden_states is not normed", False)

# ------------------------------------------------------------------ rotary and positions

kit("R1", "ml-explore/mlx-examples#97", "neighbours turn instead of halves", "pairs_of_neighbours", "phi")
kit("R1", "naklecha/llama3-from-scratch#20", "the same in Llama", "pairs_of_neighbours", "llama", kind="modules")
kit("R2", f"{LLAMA_CPP}#3364", "rows of k permuted for H/K heads", "keys_permuted_by_the_wrong_number", "mistral")
kit("R3", f"{HF}#31788", "rows of k turned back for H heads", "keys_turned_back_for_all_heads", "llama_wide_keys")
kit("R4", "Dao-AILab/flash-attention#546", "rows of k remapped as if its matrix were square", "keys_permuted_as_a_square",
    "llama_wide_keys")
kit("R5", "karpathy/llama2.c#356", "base 10000 whatever the config says", "base_of_class", "qwen2")
kit("R5", "lyogavin/airllm#369", "base 1e6 of another family", "base_of_code_llama", "llama")
kit("R6", f"{LLAMA_CPP}#8676", "Llama 3 scaling parsed and not used", "llama3_scaling_ignored", "llama3")
kit("R7", "lablup/mlxcel#1340", "linear factor of the global layers ignored", "global_scaling_ignored", "gemma3")
kit("R8", "antonellof/ferrox#39", "linear factor on the sliding layers, too", "scaling_on_local_blocks", "gemma3")
kit("R11", f"{VLLM}#3488", "dynamic base grown at any length", "dynamic_base_grown_at_once", "llama_dynamic")
kit("R11", "lablup/mlxcel#1324", "positions multiplied by the factor", "dynamic_positions_times_factor", "llama_dynamic")
passes("R12", f"{HF}#25104", "cached keys keep the base of their time", (12, *[1] * 10), "q_rot", model="llama_dynamic_short",
       cause="rope.scaling", says={"known_fault": "transformers"})
kit("R13", "mlc-ai/mlc-llm#3375", "always the long divisors", "always_the_long_divisors", "phi3_longrope")
kit("R14", "ml-explore/mlx-lm#1698", "all channels turn", "all_dimensions_rotated", "phi")
kit("R14", f"{VLLM}#43770", "exponents over the whole head", "exponent_by_head_width", "gpt_neox")
passes("R17", "Blaizzy/mlx-vlm#1983", "every decoded token at position 0", (18, 1, 1, 1, 1), "q_rot", cause="rope.position",
       positions=lambda first, count: list(range(count)))
kit("R20", f"{HF}#22382", "padding counts as positions", "padding_counts_as_positions", "gpt_neox")
kit("R21", f"ndif-team/nnsight#672, {HF}#21080", "learned positions count padding", "padding_shifts_positions", "gpt2")
kit("R22", "paiml/aprender#2143", "ALiBi's exponents one off", "slopes_from_exponent_zero", "falcon_rw")
kit("R22", "ml-explore/mlx#3071", "one geometric series for six heads", "one_series_for_six_heads", "falcon_rw")

# ------------------------------------------------------------------ attention

kit("A1", "lablup/mlxcel#998", "prefill without a mask", "no_causal_mask", "gemma2")
kit("A1", "Mikyx-1/TinyLLM#17", "the same in a small GPT", "no_causal_mask", "gpt2", kind="modules")


def anchored(patient):
    for n in patient.layers:
        patient.stages[n].visible = anchored_at_the_first_key


passes("A2", "pytorch/executorch#21749", "the mask of a second chunk starts at the first key", (14, 8), "pattern", stage=anchored,
       cause="attn.causal_mask")
passes("A2", "gittensor-ai-lab/sparkinfer#3", "the same in chunks of 8", (8, 8, 6), "pattern", stage=anchored,
       cause="attn.causal_mask")
kit("A3", "FareedKhan-dev/train-llm-from-scratch#3", "scaled by the model's width", "scale_by_model_width", "gpt2")
kit("A5", f"{LLAMA_CPP}#8444", "scaled by D/H for every size", "scale_by_width_over_heads", "gemma2_9b")
kit("A6", f"antonellof/ferrox#40, {LLAMA_CPP}#13951", "scaled by E where it is D/H", "scale_of_the_smaller_sizes", "gemma2_27b")
kit("A9", f"{LLAMA_CPP}#8197", "no soft cap", "cap_missing", "gemma2")
kit("A9", f"{VLLM}#7425", "soft cap behind the mask", "cap_behind_the_mask", "gemma2")
kit("A11", f"{HF}#26792", "a window of W + 1 keys", "window_one_wider", "mistral")
kit("A11", "ml-explore/mlx-lm#390", "a window of W - 1 keys", "window_one_narrower", "gemma3")
kit("A13", f"{VLLM}#21863", "window on every layer", "window_on_full_blocks", "gemma3")
kit("A13", "vllm-project/vllm-metal#282", "window never applied", "window_missing", "cohere2")
kit("A13", "unslothai/unsloth#8253", "window 0 read as a width", "window_zero_taken_for_a_width", "gemma3")
kit("A14", "ekzhang/jax-js#180", "kv heads tiled", "key_heads_tiled", "llama")
kit("A14", "onnx/onnx#7274", "divided by K instead of H/K", "wrong_divisor", "llama")
kit("A16", "jsbaan/transformer-from-scratch#6", "heads merged without moving their axis", "merged_without_moving_heads", "gpt2")
kit("A17", f"{VLLM}#53114", "fused rows per head read as three blocks", "fused_as_three_blocks", "gpt_neox")
kit("A17", "epfLLM/Megatron-LLM#45", "three blocks read as groups", "fused_as_groups", "phi3")
kit("A18", f"{VLLM}#1164", "one kv head for those of the config", "one_key_head_read", "falcon_groups", kind="modules")
kit("A19", "tenstorrent/tt-mlir#8958", "k and v exchanged", "keys_and_values_exchanged", "llama")
kit("A22", "allenai/OLMo#806", "turned, then normed", "rotated_before_norm", "qwen3")
kit("A23", "Cerebras/modelzoo#85", "norms of q and k never called", "qk_norm_missing", "qwen3")
kit("A24", "sbryngelson/ANEForge#253", "biases of q, k, v not loaded", "attention_biases_not_loaded", "qwen2")
sound("A25", f"{HF}#27114", "rows of padding are NaN in the last block", "rows_of_padding_are_nan", "llama")
kit("A25", "pytorch/pytorch#103749", "rows of padding are NaN, and later blocks read them", "rows_of_padding_are_nan", "llama",
    layers=(0,), first="blocks.1.pattern", status="unknown", says={"first_nan": ""})

# ------------------------------------------------------------------ MLP

kit("M1", f"{HF}#29402", "erf GELU for the tanh form", "erf_for_tanh", "gemma")
kit("M2", "sgl-project/sglang#37637", "tanh GELU for the erf form", "tanh_for_erf", "gpt_neox")
kit("M3", "karpathy/nanoGPT#2", "erf GELU in GPT-2", "erf_for_tanh", "gpt2", kind="modules")
kit("M4", "NVIDIA/TensorRT-Model-Connect#177", "SiLU for GELU", "silu_for_gelu", "gemma2")
kit("M5", "ml-explore/mlx-lm#767", "activation on the wrong branch", "activation_of_the_value", "llama")
kit("M5", "nntrainer/nntrainer#4194", "gate and up loaded the other way round", "branches_loaded_the_other_way", "qwen3")

# ------------------------------------------------------------------ embedding and head

kit("E2", "google/gemma_pytorch#67", "embedding not scaled", "embedding_scale_missing", "gemma")
kit("E3", "EleutherAI/gpt-neox#650", "OPT's two unused rows forgotten", "unused_rows_forgotten", "opt")
kit("E4", "sbryngelson/ANEForge#257", "positions two rows off", "position_rows_shifted", "bert")
kit("E5", f"{HF}#2506", "the mask handed over as segments", "segments_taken_for_the_mask", "bert")
kit("E6", f"{HF}#43429", "tied although the file has a head", "head_taken_for_tied", "mistral")
kit("E6", f"{VLLM}#53020", "a head that nobody loaded: random", "random_head", "llama", status="unknown")
refused("E7", "QwenLM/Qwen3-VL-Embedding#89", "config says untied, the file has no head",
        change_config(tie_word_embeddings=False), "llama3", "lm_head")
kit("E8", "OpenNMT/CTranslate2#1882", "embedding multiplier ignored", "embedding_multiplier_missing", "granite")
kit("E8", f"{LLAMA_CPP}#5276", "attention multiplier ignored", "scale_by_head_width", "granite")
kit("E8", "unslothai/unsloth#1218", "logits not divided", "logits_not_divided", "granite")
kit("E8", "turboderp-org/exllamav3#218", "logit scale ignored", "logit_scale_missing", "cohere")

# ------------------------------------------------------------------ residual

kit("S1", "kyegomez/BitNet#32", "x = f(x); x + x", "variable_overwritten", "llama")
kit("S2", "Howuhh/faster-trajectory-transformer#3", "n(x) + f(n(x))", "residual_behind_the_norm", "gpt2")
kit("S4", "NVIDIA-NeMo/Speech#4350", "the stream before its norm is added", "unnormed_stream_at_bert_mlp", "bert")
kit("S5", f"{HF}#18695", "parallel block run in sequence", "run_in_sequence", "gpt_neox")
kit("S5", "deepspeedai/DeepSpeed#2446", "sequential block run in parallel", "run_in_parallel", "gpt_neox_sequential")
kit("S6", "mirage-project/mirage#722", "stream added on both ranks", "stream_added_twice_at_attention", "llama")
kit("S7", "NVIDIA/FasterTransformer#466", "the raw 8-bit result is added", "sub_layer_not_rescaled", "llama")
kit("S8", f"{LLAMA_CPP}#5276", "residual multiplier ignored", "multiplier_ignored", "granite")

# ------------------------------------------------------------------ precision

kit("P1", f"{VLLM}#17364, {HF}#36832", "the stream passes 65504 in float16", "stream_outgrows_float16", "gemma3_large",
    dtype="f16", says={"first_inf": ""})
sound("P1", f"{VLLM}#17364, {HF}#36832", "the same in float32", "stream_outgrows_float16", "gemma3_large")
kit("P2", f"{HF}#9295", "an MLP's output passes 65504 in float16", "float16_outgrown", "llama_large", dtype="f16",
    says={"first_inf": ""})
kit("P3", "openvinotoolkit/openvino#37041", "infinite, then NaN everywhere", "float16_outgrown", "llama_large", dtype="f16",
    kind="ours", says={"first_inf": ""})
kit("P5", "marin-community/marin#8217", "head in bf16, logits kept in float32", "head_in_bf16", "llama")
kit("P7", "EricLBuehler/mistral.rs#2075", "tanh of the soft cap overflows in float16", "tanh_by_exponentials",
    "gemma2_large_scores", dtype="f16", status="unknown", says={"first_nan": ""})

# ------------------------------------------------------------------ loading

kit("L1", "AutoGPTQ/AutoGPTQ#139", "Conv1D's square matrix not transposed", "output_projection_transposed", "gpt2")
kit("L2", "kekzl/imp#722", "Q4_0: nibbles as neighbours", "q4_0_nibbles_as_neighbours", "llama_q4_0")
kit("L2", "1bit-MONSTER/1bit-MONSTER#572", "Q4_0: nibbles as signed numbers", "q4_0_nibbles_as_signed", "llama_q4_0")
kit("L2", "paiml/aprender#2069", "Q4_1: nibbles as neighbours", "q4_1_nibbles_as_neighbours", "llama_q4_1")
kit("L4", "paiml/aprender#2127", "Q5_K walked in sequence", "q5_k_in_sequence", "llama_q5_k")
kit("L5", "kekzl/imp#567", "converted weights: pairs for halves in blocks of 32", "nibbles_of_the_down_projection",
    "llama_blocks")
kit("L6", "1bit-MONSTER/1bit-MONSTER#483", "zeros behind the first block of 256", "only_the_first_block", "llama_q4_k")

# ------------------------------------------------------------------ tokens

tokens("T1", f"EleutherAI/lm-evaluation-harness#1465, {LLAMA_CPP}#21500", "no begin token", pair({}, dict(begin=0)))
own_tokens("T1", f"{HF}#29250", "no begin token; the right ids by --tokens", pair({}, dict(begin=0)))
tokens("T2", "lablup/mlxcel#686", "begin token by the template only", pair({}, dict(begin=0)), model="qwen2")
tokens("T3", "InfiniTensor/InfiniLM#388", "begin token twice", pair({}, dict(begin=2)), model="llama3")
tokens("T4", f"{LLAMA_CPP}#6914", "digits one by one", pair({}, dict(digits="one")), model="llama3")
tokens("T4", f"{LLAMA_CPP}#7063", "digits without limit", pair({}, dict(digits="all")), model="cohere")
tokens("T5", f"{HF}#25224", "a space in front of every piece of text", pair({}, dict(prefix=True), text=texts.MARKED),
       model="llama")
tokens("T6", f"{LLAMA_CPP}#3538", "special tokens in the text not found", pair({}, dict(marks=False), text=texts.MARKED),
       model="mistral")

# What no tiny model can show.
LEFT_OUT = [
    ("P6", "vllm-project/speculators#788", "loss and gradient: no value of a forward pass"),
    ("P8", f"{VLLM}#40290", "needs the released weights: a vision tower and the stream of one model's layer 35"),
    ("T7", f"{LLAMA_CPP}#9692", "no activations: the tokenizer file does not load"),
]
