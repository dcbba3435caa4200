# SPDX-License-Identifier: Apache-2.0
from passl.visualize.curves import _panels, draw_curves, schedule_curve
from tests.visualize.pictures import assert_drawn

RECORDS = [
    {"kind": "train", "step": 10, "epoch": 0.5, "loss": 2.0, "lr": 0.1, "speed": {"images_per_second": 9.0}},
    {"kind": "train", "step": 20, "epoch": 1.0, "loss": 1.0, "lr": 0.05, "speed": {"images_per_second": 9.0}},
    {
        "kind": "eval",
        "step": 20,
        "loss": 1.5,
        "top1": 50.0,
        "knn20_top1": 60.0,
        "rankme": 12.0,
        "speed": {"seconds": 1.0},
    },
]


def test_figures_find_their_panel():
    assert _panels(RECORDS) == {
        "loss": {"loss": [(10, 2.0), (20, 1.0)], "val loss": [(20, 1.5)]},
        "accuracy, %": {"top1": [(20, 50.0)], "knn20_top1": [(20, 60.0)]},
        "learning rate": {"lr": [(10, 0.1), (20, 0.05)]},
        "rankme": {"rankme": [(20, 12.0)]},
    }


def test_curves_are_drawn_for_any_records(tmp_path):
    for number, records in enumerate([RECORDS, RECORDS[:1], []]):
        path = draw_curves(records, tmp_path / "new" / f"{number}.png")
        if records:
            assert_drawn(path)


def test_a_loss_that_is_not_finite_can_be_drawn(tmp_path):
    assert_drawn(draw_curves([*RECORDS, {"kind": "train", "step": 30, "loss": float("nan")}], tmp_path / "a.png"))


def test_a_schedule_is_asked_for_its_first_and_last_step_and_not_for_all(tmp_path):
    asked = []

    def schedule(step):
        asked.append(step)
        return 1.0 / (1 + step)

    assert_drawn(schedule_curve(schedule, 1_000_001, tmp_path / "schedule.png"))
    assert asked[0] == 0 and asked[-1] == 1_000_000 and len(asked) < 2100
    assert_drawn(schedule_curve(schedule, 1, tmp_path / "one.png"))
