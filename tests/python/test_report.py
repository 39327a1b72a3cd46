"""What diff() and doctor() give back."""

import html.parser
import json

import numpy as np
import pytest

import mainstem as ms
from mainstem import report as reports

TOKENS = [3, 1, 4, 1, 5, 9, 2]


@pytest.fixture(scope="module")
def wrong(llama):
    return llama.trace(TOKENS, mistake="rope.pairing@1")


def test_two_dumps_are_compared_by_name(llama):
    one, other = ({"mine.a": np.full((1, 3), value), "mine.b": np.ones((1, 3))} for value in (1.0, 2.0))
    report = ms.diff(one, other)
    assert [step.site for step in report.steps] == ["mine.a", "mine.b"]
    assert report.first.site == "mine.a"


def test_a_clean_trace_matches(llama):
    report = ms.diff(llama, llama.trace(TOKENS))
    assert report.matches and report.first is None and report.wrong == [] and report.unmapped == []
    assert {step.verdict for step in report.steps} == {"ok"}
    assert report.logits.top1 == 1


def test_the_first_wrong_step_is_named(llama, wrong):
    report = ms.diff(llama, wrong)
    assert report.verdict == "divergent" and not report.matches
    assert report.first.site == "blocks.1.q_rot" and report.first is report["blocks.1.q_rot"]
    assert report.wrong == ["blocks.1.q_rot", "blocks.1.k_rot"]
    step = report.first
    assert step.verdict == "wrong" and step.is_wrong and step.local > 100 * step.envelope and step.ratio > 100
    assert step.from_ == ["blocks.1.q"]
    assert report["blocks.1.resid_post"].verdict == "inherited"
    with pytest.raises(KeyError):
        report["blocks.7.q"]


def test_the_cause_is_proved(llama, wrong):
    report = ms.doctor(llama, wrong)
    (cause,) = report.causes
    assert (cause.id, cause.status, cause.layers) == ("rope.pairing", "proved", [1])
    assert cause.left <= 4 * cause.envelope < cause.local
    assert report.first.site == "blocks.1.q_rot"
    text = str(report)
    assert "rope.pairing  proved" in text and "first wrong step: blocks.1.q_rot" in text and repr(report) == text


def test_a_file_says_the_same_as_the_arrays(llama, wrong, tmp_path):
    wrong.save(tmp_path / "wrong.safetensors")
    from_file = ms.doctor(llama, tmp_path / "wrong.safetensors")
    assert from_file.to_dict() == ms.doctor(llama, wrong).to_dict()
    assert from_file.to_dict() == ms.doctor(llama, dict(wrong.values_once())).to_dict()


def test_the_dict_is_json_of_the_contract(llama, wrong):
    fields = json.loads(json.dumps(ms.doctor(llama, wrong).to_dict(), allow_nan=False))
    assert fields["first"].keys() == {"site", "local", "envelope", "total"}
    assert {"site", "total", "local", "envelope", "ratio", "verdict", "from", "covers"} <= fields["steps"][0].keys()
    assert {"id", "sites", "layers", "status", "left", "envelope", "parameters", "fix"} <= fields["causes"][0].keys()
    assert fields["verdict"] == "divergent" and fields["wrong"] == ["blocks.1.q_rot", "blocks.1.k_rot"]


def test_dumps_in_other_types(llama):
    dump = llama.trace(TOKENS, compute="f64").values_once()
    assert ms.diff(llama, dump).arithmetic == "f64"
    half = {name: value.astype(np.float16) if value.dtype.kind == "f" else value for name, value in dump.items()}
    assert ms.diff(llama, half, dtype="f16").arithmetic == "f16"


def test_tokens_and_names_from_outside(llama, wrong):
    theirs = {"their q": wrong["blocks.1.q"], "their turned q": wrong["blocks.1.q_rot"], "noise": np.zeros(3)}
    names = {"their q": "blocks.1.q", "their turned q": "blocks.1.q_rot"}
    report = ms.doctor(llama, theirs, tokens=TOKENS, map=names)
    assert report.first.site == "blocks.1.q_rot" and report.first.name == "their turned q"
    assert report.unmapped == ["noise"]
    lines = "their q = blocks.1.q\n# a comment\ntheir turned q = blocks.1.q_rot\n"
    assert ms.doctor(llama, theirs, tokens=np.array(TOKENS), map=lines).to_dict() == report.to_dict()


def test_the_values_of_all_blocks_in_one_array(llama, wrong):
    def stack(site):
        return np.stack([wrong[f"blocks.{n}.{site}"] for n in range(2)])

    report = ms.doctor(llama, {"queries": stack("q"), "turned": stack("q_rot")}, tokens=TOKENS,
                       map={"queries": "blocks.*.q", "turned": "blocks.*.q_rot"})  # fmt: skip
    assert report.wrong == ["blocks.1.q_rot"]
    assert report.first.name == "turned.1"
    streams = np.stack([wrong["blocks.0.resid_pre"], wrong["blocks.1.resid_pre"], wrong["final_norm"]])
    report = ms.diff(llama, {"hidden_states": streams}, tokens=TOKENS)
    assert [step.name for step in report.steps] == [f"hidden_states.{n}" for n in range(3)]


def test_chosen_layers_only(llama, wrong):
    report = ms.diff(llama, wrong, layers=range(0, 1))
    assert report.matches and not [step for step in report.steps if step.site.startswith("blocks.1")]
    assert ms.diff(llama, wrong, layers=(1, 2)).wrong == ["blocks.1.q_rot", "blocks.1.k_rot"]


def test_two_dumps_without_a_model(llama, wrong):
    report = ms.diff(wrong, llama.trace(TOKENS))
    assert {step.verdict for step in report.steps if step.name == "blocks.0.q"} <= {"unknown", "ok"}
    totals = {step.name: step.total for step in report.steps}
    assert totals["blocks.1.q"] == 0 and totals["blocks.1.q_rot"] > 0


def test_nothing_in_common_is_incomparable(llama):
    report = ms.diff(llama, {"something": np.zeros((2, 2))}, tokens=TOKENS)
    assert report.verdict == "incomparable" and report.reason and report.reason in str(report)


WRONG = {
    "no such dump": (lambda model, dump: ms.diff(model, "/does/not/exist.npz"), ms.BadInputError, "/does/not/exist"),
    "dtype": (lambda model, dump: ms.diff(model, dump, dtype="int8"), ms.UsageError, "bf16"),
    "map": (lambda model, dump: ms.diff(model, dump, map="nothing here"), ms.BadInputError, "their name = site"),
    "site": (lambda model, dump: ms.diff(model, dump, map={"x": "blocks.0.no"}), ms.Error, "blocks.0.no"),
    "no dump": (lambda model, dump: ms.diff(model, 7), ms.UsageError, "a path or a dict"),
    "text": (lambda model, dump: ms.diff(model, {"a": "text"}), ms.UsageError, "'?a'?: expected"),
    "strides": (lambda model, dump: ms.diff(model, dump, layers=range(0, 4, 2)), ms.UsageError, "layers"),
    "batch": (lambda model, dump: ms.diff(model, dump, tokens=[[1], [2]]), ms.UsageError, "one sequence"),
}


@pytest.mark.parametrize("case", WRONG)
def test_errors(llama, wrong, case):
    call, kind, text = WRONG[case]
    with pytest.raises(kind, match=text):
        call(llama, wrong)


class Parser(html.parser.HTMLParser):
    """Collects texts, and sees to it that every element is closed in order."""

    def __init__(self):
        super().__init__()
        self.open, self.texts, self.tags = [], [], set()

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.tags.add(tag)
        assert not any(name.startswith("on") for name, _ in attrs)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def parsed(text):
    parser = Parser()
    parser.feed(text)
    parser.close()
    assert parser.open == [] and not parser.tags & {"script", "link", "img", "style", "iframe"}
    return parser


def test_html_of_a_report(llama, wrong):
    page = parsed(ms.doctor(llama, wrong)._repr_html_())
    text = " ".join(page.texts)
    for words in ("divergent", "first wrong step: blocks.1.q_rot", "rope.pairing", "proved", "inherited"):
        assert words in text


def test_html_escapes_what_a_dump_says():
    evil = '<script>alert("x")</script>&'
    step = {
        "site": evil, "name": evil, "total": 1.0, "local": None, "envelope": None, "ratio": None, "verdict": "wrong",
        "from_": [], "covers": [], "max_difference": float("inf"), "max_index": [], "cosine": float("nan"), "ulps": 0.0,
        "per_token": [], "per_head": [], "first_inf": [], "first_nan": [0, 1],
    }  # fmt: skip
    cause = {
        "id": evil, "sites": [evil], "layers": [], "status": "unknown", "local": 1.0, "left": 1.0, "envelope": 0.0,
        "parameters": {evil: evil}, "usual_place": evil, "fix": evil, "known_fault": evil, "shape": evil,
        "tried": [{"id": evil, "what": evil, "left": 1.0}],
        "same_values": [{"id": evil, "what": evil, "left": 1.0}], "total_if_fixed": None,
    }  # fmt: skip
    report = reports.doctor_report({
        "verdict": "divergent", "reason": "", "first": 0, "steps": [step], "wrong": [evil], "unmapped": [evil],
        "notes": [evil], "arithmetic": "f32", "logits": None, "causes": [cause],
        "predicted_site": "", "total_now": None, "total_predicted": None,
    })  # fmt: skip
    page = parsed(report._repr_html_())
    assert page.texts.count(evil) >= 4
    assert report.first.first_nan == [0, 1] and report.first.first_inf is None
    fields = report.to_dict()
    assert fields["steps"][0]["max_difference"] == "inf" and fields["steps"][0]["cosine"] == "nan"


@pytest.mark.parametrize(
    "options, what",
    [
        ({"layers": 2}, "layers"),
        ({"layers": (0, 1, 2)}, "layers"),
        ({"layers": range(0, 4, 2)}, "layers"),
        ({"layers": ("0", "1")}, "layers"),
        ({"dtype": 32}, "dtype"),
        ({"dtype": "f8"}, "dtype"),
    ],
)
def test_wrong_options_are_told(llama, options, what):
    trace = llama.trace(TOKENS)
    for call in (ms.diff, ms.doctor):
        with pytest.raises(ms.UsageError, match=what):
            call(llama, trace, **options)


def test_a_model_comes_first(llama):
    trace = llama.trace(TOKENS)
    for model in ("llama", trace, None):
        with pytest.raises(ms.UsageError, match="model: expected a Model"):
            ms.doctor(model, llama)
