"""config.json as older versions of transformers wrote it."""

SYNONYMS = {
    "gpt2": {"n_embd": "hidden_size", "n_layer": "num_hidden_layers", "n_head": "num_attention_heads",
             "n_positions": "max_position_embeddings"},
    "marian": {"d_model": "hidden_size"},
}
SYNONYMS["gptj"] = SYNONYMS["gpt2"]


def old_rope(config):
    """rope_theta and partial_rotary_factor beside rope_scaling, instead of one record."""
    old = dict(config)
    record = old.pop("rope_parameters")
    if "full_attention" in record:
        old["rope_local_base_freq"] = record["sliding_attention"]["rope_theta"]
        record = record["full_attention"]
    record = dict(record)
    theta = record.pop("rope_theta")
    share = record.pop("partial_rotary_factor", None)
    if old["model_type"] == "gpt_neox":
        old["rotary_emb_base"], old["rotary_pct"] = theta, share
    else:
        old["rope_theta"] = theta
        if share is not None:
            old["partial_rotary_factor"] = share
    if record["rope_type"] != "default":
        # The first versions said "type", which Gemma 3's class has never understood.
        kind = "rope_type" if old["model_type"].startswith("gemma3") else "type"
        old["rope_scaling"] = {kind: record.pop("rope_type")} | record
    return old


def variants(config):
    """(name, config) for each older form that differs."""
    if "rope_parameters" in config:
        yield "old rope words", old_rope(config)
    words = SYNONYMS.get(config["model_type"], {})
    if words:
        old = {words.get(key, key): value for key, value in config.items()}
        old["torch_dtype"] = old.pop("dtype")
        yield "synonyms", old
