"""Wrong answers are refused, meant ones understood, and none is ever run."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from baking import PROJECT, Oven, raw, tree
from cookiecutter.exceptions import ContextDecodingException

# question, answer, what the message must say beside both
WRONG = [
    ("project", "../evil", "lower-case letters, digits and hyphens"),
    ("project", "/etc", "lower-case letters, digits and hyphens"),
    ("project", "a/b", "lower-case letters, digits and hyphens"),
    ("project", "a" * 25, "1 to 24"),
    ("project", "9lives", "from a letter"),
    ("project", "ends-", "to a letter or digit"),
    ("project", "日本", "lower-case letters"),
    ("project", "torch-xla", "library"),
    ("project", " ", "an answer"),
    ("package", "9a", "from a letter on"),
    ("package", "a.b", "Python can import"),
    ("package", "class", "keyword"),
    ("package", "queue", "import queue"),
    ("package", "torch", "import torch"),
    ("package", "Ray", "import ray"),
    ("package", "test", "import test"),
    ("package", "_x", "from a letter on"),
    ("package", "../x", "Python can import"),
    ("description", "bell \a", "U+0007"),
    ("description", "delete \x7f", "U+007F"),
    ("description", "right to left \u202e", "U+202E"),
    ("description", "x" * 201, "1 to 200"),
    ("generation", "v9", "v5e, v6e, v5p, v4, 7x"),
    ("generation", "h100", "v5e, v6e, v5p, v4, 7x"),
    ("topology", "2x3", "2x4, 2x2"),
    ("topology", "2x2x1", "2x2, "),
    ("topology", "four", "1x1"),
    ("slices", "0", "1 to 64"),
    ("slices", "65", "1 to 64"),
    ("slices", "-1", "whole number"),
    ("slices", "1.5", "whole number"),
    ("slices", "\uff12", "whole number"),
    ("slices", "2", "4x4"),
    ("framework", "jax", "torch_xla, torch_tpu"),
    ("gcp_project", "short", "6 to 30"),
    ("gcp_project", "a" * 31, "6 to 30"),
    ("gcp_project", "my_project", "6 to 30"),
    ("gcp_project", "123456789012", "project number"),
    ("gcp_project", "example.com:my-project", "domain"),
    ("region", "us", "region"),
    ("region", "us-central1-a", "zone of us-central1"),
    ("region", "../us-central1", "region"),
    ("zones", "us-central1", '"us-central1" is none'),
    ("zones", "us-central1-a, us-east1-d", "zones of the region, us-central1"),
    ("zones", "us-central1-a us-central1-a", "once"),
    ("zones", ",", "at least one"),
    ("bucket", "ab", "3 to 63"),
    ("bucket", "a" * 64, "3 to 63"),
    ("bucket", "gs://bucket/path", "without a path"),
    ("bucket", "-bucket", "from a letter or digit"),
    ("bucket", "bucket-", "from a letter or digit"),
    ("bucket", "a..b", "3 to 63"),
    ("bucket", "192.168.5.4", "IP address"),
    ("bucket", "goog-data", '"goog"'),
    ("bucket", "my-g00gle-data", '"google"'),
    ("capacity", "reserved", '"reserved" is none'),
    ("capacity", "reservation", "reservation:NAME"),
    ("capacity", "reservation:-x", '"reservation:-x" is none'),
    ("capacity", "spot, on-demand, Spot", "once"),
    ("capacity", ", ,", "at least one"),
    ("capacity", "flex-start, spot", "flex-start comes last"),
    ("cluster_mode", "serverless", "standard, autopilot"),
    ("ci", "jenkins", "both, github, cloudbuild"),
]
MEANT = [
    ("project", " My Model_2 ", "my-model-2"),
    ("package", "My-Model", "my_model"),
    ("description", "  two\twords\nand more ", "two words and more"),
    ("generation", "V5E", "v5e"),
    ("generation", "TPU v6e", "v6e"),
    ("generation", "Trillium", "v6e"),
    ("generation", "tpu-v5-lite-podslice", "v5e"),
    ("generation", "v5litepod", "v5e"),
    ("generation", "tpu7x", "7x"),
    ("generation", "Ironwood", "7x"),
    ("topology", "2X4", "2x4"),
    ("topology", " 2 \u00d7 4 ", "2x4"),
    ("slices", " 01 ", "1"),
    ("framework", "PyTorch/XLA", "torch_xla"),
    ("framework", "TorchTPU", "torch_tpu"),
    ("gcp_project", "projects/My-Project/", "my-project"),
    ("region", " US-East5", "us-east5"),
    ("zones", "b,  c", "us-central1-b, us-central1-c"),
    ("zones", "us-central1-a;us-central1-ai1a", "us-central1-a, us-central1-ai1a"),
    ("bucket", "gs://My-Bucket/", "my-bucket"),
    ("bucket", "data.example.com", "data.example.com"),
    ("capacity", "Reservation: Team-A, on demand Spot", "reservation:team-a, on-demand, spot"),
    ("capacity", "flex_start", "flex-start"),
    (
        "capacity",
        "reservation:projects/other-1/reservations/tpu, spot",
        "reservation:projects/other-1/reservations/tpu, spot",
    ),
    ("cluster_mode", "AutoPilot ", "autopilot"),
    ("ci", "GitHub Actions", "github"),
    ("ci", "Cloud Build", "cloudbuild"),
]
HOSTILE = [
    "quotes \" ' ''' \"\"\" and \\ backslash \\u0041 \\",
    "<< 7*7 >> <<- cookiecutter.__class__ >> <% raw %> <% for <# x",
    "<< cycler.__init__.__globals__.os.system('touch pwned') >>",
    "{{ 7*7 }} {% x %} {# #} ${{ secrets.TOKEN }} $(touch pwned) `touch pwned` ${HOME} %(x)s",
    "key: value # comment - [list] {map} *alias &anchor !tag | > @ | --- ...",
    "*bold* _it_ [link](javascript:x) <b>html</b> <!-- &amp; ![i](x) ~~s~~ # h 1. - $x$",
    "日本語の説明 café 👩\u200d🔬",
    "</script>\u00a0& null true 0x10 12:30 ~",
]


@pytest.fixture
def nothing_left(oven: Oven, tmp_path: Path) -> Iterator[Path]:
    """A folder to bake into that must not come to be, nor anything beside it or in the
    template's own."""
    before = tree(oven.template / PROJECT)
    yield tmp_path / "out"
    assert list(tmp_path.iterdir()) == []
    assert tree(oven.template / PROJECT) == before


@pytest.mark.parametrize(("question", "answer", "says"), WRONG)
def test_a_wrong_answer_is_named_with_its_rule_and_one_that_works(
    oven: Oven, nothing_left: Path, question: str, answer: str, says: str
) -> None:
    with pytest.raises(ContextDecodingException) as refusal:
        oven.bake(nothing_left, **{question: answer})
    message = str(refusal.value)
    assert message.startswith("1 answer cannot work")
    assert f"  {question}: {answer!r}"[:100] in message
    assert says in message
    example = message.split("example: ")[1].splitlines()[0]
    if answer.strip():
        assert oven.settle(**{question: example})[question] == example


def test_every_question_can_be_answered_wrongly() -> None:
    assert {question for question, _, _ in WRONG} == raw()["__prompts__"].keys()


def test_all_wrong_answers_are_named_at_once(oven: Oven, nothing_left: Path) -> None:
    wrong = {question: answer for question, answer, _ in reversed(WRONG)}
    done = oven.cookiecutter(nothing_left, *(f"{name}={answer}" for name, answer in wrong.items()))
    assert done.returncode == 1
    assert done.stderr == ""
    assert f"{len(wrong)} answers cannot work" in done.stdout
    named = [line.split(":")[0].strip() for line in done.stdout.splitlines() if line[2:3].strip()]
    assert [name for name in named if name in wrong] == list(raw()["__prompts__"])


def test_a_wrong_answer_at_the_prompt_ends_without_a_traceback(
    oven: Oven, nothing_left: Path
) -> None:
    typed = "mine\n\n\nv9\n" + "\n" * 10
    done = oven.cookiecutter(nothing_left, typed=typed)
    assert done.returncode == 1
    assert "Traceback" not in done.stdout + done.stderr
    assert "generation: 'v9'" in done.stdout
    assert "To keep your other answers, end the command with: project=mine" in done.stdout


def test_what_was_right_can_be_given_again_as_printed(oven: Oven, nothing_left: Path) -> None:
    given = {"project": "mine", "description": 'it\'s "mine"', "zones": "us-central1-b"}
    words = [f"{name}={answer}" for name, answer in given.items()]
    done = oven.cookiecutter(nothing_left, "ci=jenkins", *words)
    again = done.stdout.split("end the command with: ")[1]
    shell = f"cookiecutter --no-input -o {oven.place}/again {oven.template} {again}"
    assert oven.run("sh", "-c", shell).returncode == 0
    made = oven.place / "again" / "mine"
    assert 'zones = ["us-central1-b"]' in (made / "run.toml").read_text("utf-8")


def test_answers_that_are_no_text_are_refused(oven: Oven, nothing_left: Path) -> None:
    with pytest.raises(ContextDecodingException, match="3 answers"):
        oven.bake(nothing_left, project=None, bucket=True, zones={"first": "us-central1-a"})


def test_a_wrong_answer_brings_no_fault_of_answers_made_of_it(oven: Oven) -> None:
    with pytest.raises(ContextDecodingException, match=r"^4 answers"):
        oven.settle(project="../evil", gcp_project="x", generation="v9", region="x")


@pytest.mark.parametrize(("question", "answer", "normal"), MEANT)
def test_what_a_person_means_is_understood(
    oven: Oven, question: str, answer: str, normal: str
) -> None:
    region = {"zones": "us-east5-a"} if question == "region" else {}
    settled = oven.settle(**{question: answer}, **region)
    assert settled[question] == normal
    again = {name: settled[name] for name in raw()["__prompts__"]}
    assert oven.settle(**again) == settled, "a normal form is its own normal form"


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ({}, {"topology": "2x2", "region": "us-central1", "zones": "us-central1-a"}),
        ({"generation": "V6E"}, {"topology": "2x2", "zones": "us-central1-b"}),
        ({"generation": "v5p"}, {"topology": "2x2x1", "zones": "us-central1-a"}),
        ({"generation": "7x"}, {"topology": "2x2x1", "zones": "us-central1-c"}),
        ({"generation": "v4"}, {"region": "us-central2", "zones": "us-central2-b"}),
        ({"region": "europe-west4"}, {"zones": "europe-west4-a"}),
        ({"project": "My Model"}, {"package": "my_model", "bucket": "my-gcp-project-my-model"}),
        ({"project": "queue"}, {"package": "queue_training"}),
        ({"gcp_project": "Other-1"}, {"bucket": "other-1-tpu-training"}),
    ],
)
def test_defaults_follow_the_answers_before_them(
    oven: Oven, answers: dict[str, str], expected: dict[str, str]
) -> None:
    settled = oven.settle(**answers)
    assert {name: settled[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("answers", "says"),
    [
        ({"generation": "v4", "region": "us-central1"}, "v4 is only in us-central2-b"),
        ({"generation": "v4", "zones": "us-central2-a"}, "v4 is only in us-central2-b"),
        ({"generation": "v5p", "topology": "2x2"}, 'v5p has no topology "2x2": 2x2x1, 2x2x2'),
        ({"generation": "v5p", "slices": "2"}, "topology 2x2x2 up"),
    ],
)
def test_answers_are_held_against_each_other(
    oven: Oven, answers: dict[str, str], says: str
) -> None:
    with pytest.raises(ContextDecodingException, match=r"^1 answer") as refusal:
        oven.settle(**answers)
    assert says in str(refusal.value)


@pytest.mark.parametrize("text", HOSTILE)
def test_an_answer_stays_what_it_is(oven: Oven, text: str) -> None:
    assert oven.settle(description=text)["description"] == " ".join(text.split())
    assert not (oven.place / "pwned").exists()


@pytest.mark.parametrize("text", HOSTILE)
def test_an_answer_at_the_prompt_stays_what_it_is(oven: Oven, tmp_path: Path, text: str) -> None:
    done = oven.cookiecutter(tmp_path, typed=f"\n\n{text}\n" + "\n" * 11)
    assert done.returncode == 0, done.stdout + done.stderr
    replay = oven.place / ".cookiecutter_replay" / f"{oven.template.name}.json"
    assert json.loads(replay.read_text("utf-8"))["cookiecutter"]["description"] == " ".join(
        text.split()
    )
    assert not list(tmp_path.rglob("pwned")) + list(oven.place.rglob("pwned"))


@pytest.mark.parametrize(
    "question", [name for name in raw()["__prompts__"] if name != "description"]
)
def test_no_other_answer_is_run_either(oven: Oven, nothing_left: Path, question: str) -> None:
    run = "<< cycler.__init__.__globals__.os.mkdir('pwned') >>"
    with pytest.raises(ContextDecodingException, match="cycler"):
        oven.bake(nothing_left, **{question: run})
    assert not Path("pwned").exists()


@pytest.mark.parametrize("framework", ["torch_xla", "torch_tpu"])
def test_no_package_hides_a_library_of_the_project(
    oven: Oven, tmp_path: Path, framework: str
) -> None:
    project = oven.bake(tmp_path, framework=framework)
    table = tomllib.loads((project / "pyproject.toml").read_text("utf-8"))
    groups = [table["project"]["dependencies"], *table["project"]["optional-dependencies"].values()]
    lines = [line for group in [*groups, *table["dependency-groups"].values()] for line in group]
    names = {re.split(r"[^A-Za-z0-9_-]", line)[0] for line in lines if isinstance(line, str)}
    assert "torch" in names
    for name in names:
        with pytest.raises(ContextDecodingException, match="package: "):
            oven.settle(package=name)
