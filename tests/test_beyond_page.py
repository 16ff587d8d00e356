"""The page of what goes beyond the paper: gains over the paper's own row, prices counted from what episodes drew."""

import pytest

from zoolearn.lab.paper.beyond import beyond, price
from zoolearn.methods.model_zoo import ModelZoo
from zoolearn.runs.results import EpisodeRecord, Results
from zoolearn.training.recipe import Recipe

SECONDS = {"train": 60.0, "evaluate": 0.0}


def run(accuracy: float, seed: int = 0, tasks: int = 3, **settings: object) -> Results:
    """A finished run of three tasks whose episodes train on all tasks so far."""
    learner = ModelZoo(recipe=Recipe(epochs=1), seed=seed)
    names = [f"task {number}" for number in range(tasks)]
    b = int(settings.get("tasks_per_episode", 5)) if settings.get("replay", 1.0) else 1
    return Results(
        method="model-zoo",
        benchmark="split-cifar100",
        tasks=names,
        settings={"benchmark": {}, **learner.settings(), **settings},
        accuracy=[[accuracy] * (number + 1) for number in range(tasks)],
        episodes=[EpisodeRecord([names[number], *names[:number]][:b], None, 1.0, SECONDS) for number in range(tasks)],
    )


def test_the_price_is_counted_from_what_was_drawn():
    plain = price(run(0.7))
    assert plain.trained == 2500 * (1 + 2 + 3)
    assert plain.asked == plain.trained, "each row once, for the losses of past tasks"
    assert plain.passes == (3 + 2 + 1) / 3


@pytest.mark.parametrize(
    ("settings", "trained", "asked", "passes"),
    [
        ({"replay": 0.0}, 3, 0, 1),
        ({"replay": 0.0, "adoption": True}, 3, 0 + 1 + 2, 2),
        ({"replay": 0.0, "adoption": True, "mirror": True}, 3, 2 * 3, 4),
        ({"tasks_per_episode": 1, "adoption": True}, 3, (1 + 2) + (1 + 2), 3),
        ({"tasks_per_episode": 1, "adoption": True, "elders": False}, 3, 1 + 2, 2),
        ({"replay": 0.0, "adoption": True, "elders": False}, 3, 0, 1),
        ({"inherit": "last", "fit_heads": "before"}, 6, 6 + 2 + 3, 2),
        ({"fit_heads": "after", "trust": 1.0}, 6, 6 + 6, 2),
        ({"trust": 1.0, "held_out": 0.1}, 3 + 0.9 * 3, 6 + 3 + 0.1 * 3, 2),
        ({"replay": 0.1}, 1 + 2 + 2, 0.1 * 6, 2),
        ({"trust": 1.0, "held_out": 0.1, "mirror": True}, 3 + 0.9 * 3, 6 + 2 * (3 + 0.1 * 3), 4),
        ({"inherit": "best"}, 6, 6 + 0.2 * (1 + 2), 2),
        ({"partners": "separability"}, 6, 6 + 0.1 * (1 + 2), 2),
        ({"partners": "kinship", "replay": 0.02}, 1 + 2 + 2, 0.02 * 6 + 0.1 * 3, 2),
        ({"partners": "agreement"}, 6, 6 + 4 * 0.1 * (1 + 2), 2),
        ({"partners": "disagreement"}, 6, 6 + 0.1 * (1 + 3), 2),
    ],
)
def test_every_setting_has_its_price(settings, trained, asked, passes):
    found = price(run(0.7, **settings))
    assert found.trained == pytest.approx(2500 * trained)
    assert found.asked == pytest.approx(2500 * asked)
    assert found.passes == pytest.approx(passes)


def test_rows_stand_beside_the_papers_of_their_own_budget_and_losses_are_named():
    limited = [run(0.75, replay=0.1), run(0.76, replay=0.1, adoption=True, elders=False)]
    runs = [run(0.70), run(0.72, 1), run(0.80, inherit="last"), run(0.6, trust=9.0), *limited, run(0.7, replay=0.5)]
    page = beyond(runs)
    full, limited = page.split("## ")[1:]  # a budget that nothing else was tried with has no section
    assert "71.00 ± 1.41" in full
    assert "--inherit last" in full
    assert "+10.00" in full, "0.80 over 0.70 of the same seed"
    assert "Lost: `--trust 9.0` -10.00" in full
    assert limited.startswith("split-cifar100, --epochs 1 --replay 0.1")
    assert "75.00" in limited
    assert "--adoption --no-elders" in limited
    assert "+1.00" in limited


def test_gains_are_counted_seed_by_seed():
    runs = [run(0.70), run(0.76, 1), run(0.5, 2), run(0.74, inherit="last"), run(0.82, 1, inherit="last")]
    assert "| +5.00 ± 1.41 |" in beyond(runs)


def test_a_part_of_the_data_is_named():
    part = run(0.5, inherit="last")
    part.train_samples = [400] * 3
    assert price(part).trained == 400 * 6
    assert "## split-cifar100, --epochs 1, 400 rows a task at hand\n" in beyond([part])


def test_a_whole_run_stands_beside_shorter_ones_as_it_was_after_as_many_tasks():
    whole = run(0.7, tasks=3)
    whole.accuracy = [[0.5], [0.6, 0.6], [0.7, 0.7, 0.7]]
    short = run(0.65, tasks=2, inherit="last", benchmark={"first_tasks": 2})
    section = next(part for part in beyond([whole, short]).split("## ") if "--first-tasks 2" in part)
    assert "60.00" in section
    assert "+5.00" in section
