"""What a push needs around a run, as far as no cloud is needed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from << cookiecutter.package >>.errors import Refused
from << cookiecutter.package >>.ops import issue
from << cookiecutter.package >>.ops.report import MOST_POINTS, Report, _points
from << cookiecutter.package >>.ops.startup import startup
from << cookiecutter.package >>.ops.summaries import append, picture, run_markdown, sweep_markdown

PULLS = ("42.5s (1m2.5s including waiting)", "850ms (12s including waiting)", "4s")
REPORT = Report(
    run="run-1",
    state="succeeded",
    slice="1 x v5e 2x2",
    chips=4,
    step=100,
    steps=100,
    points=tuple((step, 5 - step / 50) for step in range(1, 101)),
    tokens_per_second=12345.6,
    mfu=0.421,
    goodput=None,
    seconds=3600.0,
    startup=(("pods", 95.2), ("first_step", 41.0)),
    chip_hours=4.0,
    usd=4.8,
    checkpoint="gs://b/runs/run-1/checkpoints/step-00000100-0a0b0c0d",
    folder="gs://b/runs/run-1",
)


def test_a_summary_tells_what_a_run_did_and_how_to_go_on() -> None:
    text = run_markdown(REPORT)
    for words in ("12,346", "42.1%", "60 min", "at most $4.80", "step-00000100", "loss.svg"):
        assert words in text
    assert "| start-up | pods 95 s, first step 41 s |" in text
    assert text.count("```") == 2, "one diagram"
    assert "raise train.steps" in text
    assert "from its newest checkpoint" in run_markdown(replace(REPORT, step=50))


def test_what_is_not_known_is_said() -> None:
    nothing = replace(REPORT, points=(), tokens_per_second=None, mfu=None, seconds=None, usd=None)
    text = run_markdown(replace(nothing, checkpoint=None))
    assert "mermaid" not in text
    assert "| loss | none yet |" in text and "price unknown" in text


def test_a_run_that_no_cluster_knows_has_no_chips_and_no_cost() -> None:
    text = run_markdown(replace(REPORT, chip_hours=0.0, usd=None, checkpoint=None, step=1))
    assert "| chips |" not in text and "| cost |" not in text
    assert "it has no checkpoint, and begins at its first step" in text


def test_a_start_is_told_as_far_as_it_is_known() -> None:
    job = {
        "status": {
            "startTime": "2026-01-01T00:00:00Z",
            "rayClusterStatus": {"stateTransitionTimes": {"ready": "2026-01-01T00:01:30Z"}},
            "rayJobInfo": {"startTime": "2026-01-01T00:01:34Z"},
        }
    }
    pulls = [f'Successfully pulled image "train" in {took}. Image size: 9 bytes.' for took in PULLS]
    events = [{"message": text} for text in (*pulls, "Created pod: x")]
    began = datetime(2026, 1, 1, 0, 1, 40, tzinfo=UTC).timestamp()
    summary = {"started_at": began, "phases": {"first_step": 40.5, "device": 2.0, "upload": 1.0}}
    assert startup(job, events, summary) == (
        *(("pods", 90.0), ("of_it_image", 62.5), ("job", 4.0), ("workers", 6.0)),
        *(("device", 2.0), ("first_step", 40.5)),
    )
    later = startup(job, [], summary | {"attempt": 2})
    assert later == (("pods", 90.0), ("job", 4.0), ("device", 2.0), ("first_step", 40.5))
    assert startup(None, [], {}) == ()
    assert startup({"status": {"startTime": "soon"}}, [], {"started_at": began}) == ()


def test_a_long_run_s_diagram_stays_readable() -> None:
    (line,) = (line for line in run_markdown(REPORT).splitlines() if line.startswith("    line ["))
    assert line.count(",") < 40


def test_a_long_run_s_curve_is_thinned_and_ends_with_its_newest_loss() -> None:
    rows = [{"step": step, "loss": float(step)} for step in range(10 * MOST_POINTS + 1)]
    assert len(_points(rows)) <= MOST_POINTS
    assert _points(rows)[-1] == (10 * MOST_POINTS + 1, 10.0 * MOST_POINTS)
    assert [step for step, _ in _points(rows[:3])] == [1, 2, 3]


def test_the_picture_is_one() -> None:
    assert "<svg" in picture(REPORT)


def test_a_summary_is_appended_and_its_faults_are_told(tmp_path: Path) -> None:
    append(None, "x")
    for _ in range(2):
        append(tmp_path / "summary", "x")
    assert (tmp_path / "summary").read_text() == "x\nx\n"
    with pytest.raises(Refused, match="cannot be written"):
        append(tmp_path, "x")


def test_a_sweep_s_summary_says_what_how_long_and_how_much() -> None:
    item = {
        **{"thing": "node pool p", "run": "r", "fate": "remove", "reason": "expired"},
        **{"created_at": 0, "chip_hours": 8.0, "usd": 9.6},
    }
    result = {"looked_at": [item], "removed": None, "stayed": [], "unseen": ["location x"]}
    text = sweep_markdown(result, 7200)
    for words in ("1 would be removed", "| 2.0 h | at most $9.60 |", "location x"):
        assert words in text


@pytest.mark.parametrize(("titles", "verb"), [([], "create"), ([issue.TITLE], "comment")])
def test_there_is_one_issue(titles: list[str], verb: str) -> None:
    called: list[str] = []

    def gh(words: Sequence[str]) -> tuple[int, str, str]:
        called.append(words[2])
        known = [{"number": n, "title": title} for n, title in enumerate(["other", *titles])]
        return 0, json.dumps(known), ""

    issue.tell("text", gh)
    assert called == ["list", verb]


def test_what_github_refuses_is_told() -> None:
    with pytest.raises(Refused, match="issues: write"):
        issue.tell("text", lambda words: (1, "", "403"))
