"""The picture of error over the local epsilon: what the API says, all of it, and reachable from the privacy page."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from hubbub_aggregator.dashboard.error_picture import picture
from hubbub_aggregator.models.tradeoff import TradeoffAnswer, TradeoffPoint
from tests.aggregator.world import Site

PLACES = ((0.5, 0.01, 0.01), (3.0, 0.0015, 0.0015), (5.2, 0.0005, 0.0005), (6.5, 0.0005, 0.0003))
ANSWER = TradeoffAnswer(
    metric="theme",
    metric_id="00" * 16,
    reports=40_000,
    honest_reports=36_000,
    epsilon=0.5,
    delta=1e-8,
    local_epsilon=3.0,
    standard_error=0.0015,
    cap=3.0,
    central_gaussian=0.00035,
    points=[
        TradeoffPoint(local_epsilon=epsilon, mechanism="krr", standard_error=error, local_bound=bound)
        for epsilon, error, bound in PLACES
    ],
    sides=["To the left is <less>.", "To the right is more."],
)


def test_the_picture_has_three_lines_the_cap_the_choice_and_both_sentences() -> None:
    svg = picture(ANSWER)
    ElementTree.fromstring(svg)  # noqa: S314  our own
    words = re.sub("<[^>]*>", "\n", svg)
    for said in ("this crowd, certified", "a trusted server, Gaussian noise", "local bound", "cap 3", "in use: 3"):
        assert said in words
    assert "To the left is &lt;less&gt;." in words
    assert "To the right is more." in words
    # the line falls to the right, and the choice lies on it
    drawn = re.findall(r'<path d="M([^"]*)" fill="none" stroke="([^"]*)"', svg)
    crowd = [tuple(map(float, point.split(","))) for point in drawn[-1][0].split("L")]
    assert [at for at, _ in crowd] == sorted(at for at, _ in crowd)
    assert [height for _, height in crowd] == sorted(height for _, height in crowd)
    assert f'cy="{crowd[1][1]:g}"' in svg or f'cy="{crowd[1][1]:.2f}"' in svg


def test_a_mean_without_a_known_bound_has_no_line_for_it() -> None:
    points = [point.model_copy(update={"local_bound": None}) for point in ANSWER.points]
    assert "local bound" not in picture(ANSWER.model_copy(update={"points": points, "cap": None}))


def test_the_picture_of_a_metric_is_a_file_of_the_dashboard(site: Site) -> None:
    response = site.get("/chart/error/dark_mode.svg")
    assert response.status_code == 200, response.text
    assert "this crowd, certified" in response.text
    assert site.get("/chart/error/nothing.svg").status_code == 404
