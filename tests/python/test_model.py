"""Models: values of every step, batches, texts, errors."""

import json
import pathlib

import numpy as np
import pytest

import mainstem as ms

from conftest import FAMILIES

EPS32, EPS64 = np.finfo(np.float32).eps, np.finfo(np.float64).eps


def golden_families():
    return sorted(folder.name for folder in FAMILIES.iterdir())


@pytest.mark.parametrize("family", golden_families())
@pytest.mark.parametrize("compute", ["f32", "f64"])
def test_every_step_equals_transformers(family, compute):
    golden = ms.read_dump(FAMILIES / family / "golden.safetensors")
    if "token_types" in golden:
        pytest.skip("the golden run has token types")
    model = ms.load(FAMILIES / family)
    if "encoder_tokens" in golden:
        trace = model.trace(golden["encoder_tokens"], decoder_ids=golden["tokens"], compute=compute)
    else:
        trace = model.trace(golden["tokens"], compute=compute)
    blocks = len(model.spec.stack.blocks) + (len(model.spec.encoder.blocks) if model.spec.encoder else 0)
    # As tests/support/bounds.h: every block amplifies what came in and adds its own.
    relative = (EPS64 if compute == "f64" else EPS32) * 300 * 2.5**blocks
    compared = 0
    for name, want in golden.items():
        if name.endswith("tokens"):
            continue
        got = trace[name]
        assert got.shape == want.shape, name
        assert got.dtype == (np.float64 if compute == "f64" else np.float32)
        bound = relative * np.abs(want).max() + EPS32 / 2 * np.abs(want)
        assert (np.abs(got - want) <= bound).all(), name
        compared += 1
    assert compared > 10


def test_sites_fire_in_order_and_second_names_share_the_array(llama):
    trace = llama.trace([3, 1, 4, 1], "blocks.1.*,logits")
    order = [site.name for site in llama.sites]
    assert list(trace) == sorted(trace, key=order.index)
    assert trace["blocks.1.mlp_out"] is trace["blocks.1.mlp_proj"]
    assert "blocks.1.mlp_out" not in trace.values_once()
    assert {site.name: site.same_as for site in llama.sites}["blocks.1.mlp_out"] == "blocks.1.mlp_proj"
    assert "blocks.1.q_rot" in repr(trace) and "<td>blocks.1.q_rot</td>" in trace._repr_html_()


def test_a_second_name_alone(llama):
    trace = llama.trace([3, 1], ["blocks.0.mlp_out"])
    assert list(trace) == ["blocks.0.mlp_out"] and trace["blocks.0.mlp_out"].shape == (1, 2, 12)


def test_globs_with_braces(llama):
    assert list(llama.trace([3], "blocks.{0,1}.{q,k}_rot")) == [
        "blocks.0.q_rot", "blocks.0.k_rot", "blocks.1.q_rot", "blocks.1.k_rot"
    ]  # fmt: skip


def test_traced_arrays_own_their_memory(llama):
    first = llama.trace([3, 1, 4])["blocks.0.q"]
    kept = first.copy()
    llama.trace([5, 9, 2])
    first[0, 0] += 0  # writable
    assert (first == kept).all()
    assert first.base is not None and not first.flags.owndata  # a view of the trace's memory, not a copy


def test_shapes_and_formulas_of_sites(llama):
    sites = {site.name: site for site in llama.sites}
    q = sites["blocks.0.q"]
    assert q.dims == "BTHE" and q.shape == ("B", "T", 4, 6)
    assert sites["blocks.0.scores"].shape == ("B", 4, "T", "S")
    assert "W" in q.formula


def test_forward_is_the_logits_of_a_trace(llama):
    ids = np.array([3, 1, 4, 1, 5])
    logits = llama.forward(ids)
    assert logits.shape == (5, 41) and logits.dtype == np.float32
    assert (logits == llama.trace(ids, "logits")["logits"][0]).all()
    double = llama.forward(ids, compute="f64")
    assert double.dtype == np.float64
    assert np.abs(double - logits).max() < 1e-4 * np.abs(double).max()


def test_a_model_without_a_head_gives_its_last_stream():
    model = ms.load(FAMILIES / "bert_bare")
    assert model.forward([3, 1, 4]).shape == (3, 12)


def test_batches_are_padded_on_the_left(llama):
    short, long = [3, 1, 4], [1, 5, 9, 2, 6]
    both = llama.forward([short, long])
    assert both.shape == (2, 5, 41)
    bound = 1e-5 * np.abs(both).max()
    assert np.abs(both[0, 2:] - llama.forward(short)).max() <= bound
    assert np.abs(both[1] - llama.forward(long)).max() <= bound
    trace = llama.trace([short, long], "logits")
    assert trace.tokens.tolist() == [[0, 0, 3, 1, 4], [1, 5, 9, 2, 6]]
    assert trace.key_mask.tolist() == [[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]]
    dump = trace.values_once()
    assert dump["positions"].tolist() == [[0, 0, 0, 1, 2], [0, 1, 2, 3, 4]]


def test_an_array_of_one_row_is_a_batch(llama):
    assert llama.forward(np.array([[3, 1, 4]], np.int32)).shape == (1, 3, 41)


def test_encoder_decoders_begin_with_their_start_token():
    model = ms.load(FAMILIES / "marian")
    assert model.forward([7, 40, 2], decoder_ids=[1, 2]).shape == (2, model.spec.vocab_size)
    trace = model.trace([7, 40, 2], "decoder.tokens,encoder.tokens", decoder_ids=[5])
    assert trace["decoder.tokens"].tolist() == [[5]] and trace["encoder.tokens"].tolist() == [[7, 40, 2]]


@pytest.mark.parametrize("suffix", [".safetensors", ".npz"])
def test_a_saved_trace_reads_back(llama, tmp_path, suffix):
    trace = llama.trace([3, 1, 4])
    path = tmp_path / f"trace{suffix}"
    trace.save(path)
    back = ms.read_dump(path)
    assert back["tokens"].tolist() == [[3, 1, 4]]
    assert set(back) == set(trace.values_once())
    assert all((back[name] == trace[name]).all() for name in back)


def test_a_mistake_made_on_purpose_shows_from_its_step_on(llama):
    right, wrong = llama.trace([3, 1, 4, 1]), llama.trace([3, 1, 4, 1], mistake="rope.pairing@1")
    changed = [name for name in right if not np.array_equal(right[name], wrong[name])]
    assert changed[0] == "blocks.1.q_rot" and "rope.pairing" in ms.known_mistakes()


def test_checks_pass_and_catch_a_mistake(llama):
    assert all(check.status != "failed" for check in llama.check())
    assert [check.id for check in llama.check(mistake="attn.causal_mask") if check.status == "failed"]


def test_the_spec_is_that_of_the_files(llama):
    config = json.loads((FAMILIES / "llama/config.json").read_text())
    spec = llama.spec
    assert spec.vocab_size == config["vocab_size"]
    block = spec.stack.blocks[0]
    assert (block.width, block.attention.heads) == (config["hidden_size"], config["num_attention_heads"])
    assert block.norm.eps == config["rms_norm_eps"] and block.mlp.activation == "silu"
    assert spec.to_dict()["stack"]["blocks"][0]["attention"]["rotary"]["scaling"]["kind"] == "llama3"
    assert "2 blocks of width 12" in repr(spec)


@pytest.mark.parametrize("family", golden_families())
def test_every_familys_block_spec_is_possible_and_goes_round(family):
    from mainstem import _core, spec

    for block in ms.load(FAMILIES / family).spec.stack.blocks:
        assert spec.block_from(_core.normalised_block_spec(block.to_dict())) == block


def test_generation_is_greedy_and_seeded(llama):
    made = llama.generate([3, 1, 4], 6, compute="f32")
    ids = [3, 1, 4]
    for _ in range(6):
        ids.append(int(llama.forward(ids)[-1].argmax()))
    assert made.ids == ids[3:] and made.stop == "length" and made.text is None
    drawn = [llama.generate([3], 8, temperature=1.0, seed=seed).ids for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_a_real_models_text(smollm):
    assert smollm.generate("The capital of France is", 1).text == " Paris"
    ids = smollm.encode("Hello world")
    assert smollm.decode(np.array(ids)) == "Hello world"
    assert smollm.tokenizer.piece(ids[0]) and smollm.parameters == 134515008
    assert smollm.forward("Hello world").shape == (len(ids), smollm.spec.vocab_size)


WRONG = {
    "no such file": (lambda model: ms.load("/does/not/exist"), ms.BadInputError, "/does/not/exist"),
    "id outside": (lambda model: model.forward([3, 41]), ms.UsageError, "0 to 40"),
    "no tokens": (lambda model: model.forward([]), ms.UsageError, "one token"),
    "fractions": (lambda model: model.forward(np.array([1.5])), ms.UsageError, "1.5"),
    "bool": (lambda model: model.forward([3, True]), ms.UsageError, "True"),
    "three axes": (lambda model: model.forward(np.zeros((1, 1, 1), int)), ms.UsageError, "3 dimensions"),
    "no such step": (lambda model: model.trace([3], "blocks.2.q"), ms.UsageError, "blocks.1.q"),
    "open brace": (lambda model: model.trace([3], "blocks.{0,1.q"), ms.UsageError, "}"),
    "compute": (lambda model: model.forward([3], compute="f16"), ms.UsageError, "f64"),
    "no tokenizer": (lambda model: model.forward("text"), ms.UsageError, "tokenizer"),
    "mistake": (lambda model: model.trace([3], mistake="rope.nothing"), ms.UsageError, "rope.pairing"),
    "decoder": (lambda model: model.forward([3], decoder_ids=[1]), ms.UsageError, "encoder-decoder"),
    "prompts": (lambda model: model.generate([[3], [1]]), ms.UsageError, "one sequence"),
    "temperature": (lambda model: model.generate([3], temperature=-1), ms.UsageError, "temperature"),
    "save": (lambda model: ms.save("a.txt", {}), ms.UsageError, ".npz"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_errors_say_what_was_expected(llama, case):
    call, kind, text = WRONG[case]
    with pytest.raises(kind) as caught:
        call(llama)
    assert isinstance(caught.value, ms.Error) and text in str(caught.value)


def test_unknown_config_keys_are_an_error_unless_allowed(tmp_path):
    source = FAMILIES / "llama"
    for name in ("model.safetensors", "config.json"):
        (tmp_path / name).write_bytes((source / name).read_bytes())
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "warp_factor": 9}))
    with pytest.raises(ms.BadInputError, match="warp_factor"):
        ms.load(tmp_path)
    assert ms.load(pathlib.Path(tmp_path), allow_unknown_keys=["warp_factor"]).family == "llama"
