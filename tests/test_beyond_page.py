"""The page of what goes beyond the paper: gains over the paper's own row, and what they cost."""

from dataclasses import asdict, replace

from zoolearn.beyond.warm_start import WarmStart
from zoolearn.lab.figures import Figure, Panel, Plot, Series
from zoolearn.lab.paper.beyond import beyond, sum_up
from zoolearn.lab.studies.study import Study
from zoolearn.methods.learner import Episode
from zoolearn.methods.model_zoo import ModelZoo
from zoolearn.methods.registry import settings_of
from zoolearn.runs.results import Results, Untold
from zoolearn.training.recipe import Recipe


def run(accuracy: float, seed: int = 0, tasks: int = 3, **settings: object) -> Results:
    """A finished run of three tasks whose episodes train on all tasks so far."""
    learner = ModelZoo(recipe=Recipe(epochs=1), seed=seed)
    names = [f"task {number}" for number in range(tasks)]
    b = int(settings.get("tasks_per_episode", 5)) if settings.get("replay", 1.0) else 1
    return Results(
        method="model-zoo",
        benchmark="split-cifar100",
        tasks=names,
        settings={"benchmark": {}, **settings_of(learner), **settings},
        accuracy=[[accuracy] * (number + 1) for number in range(tasks)],
        episodes=[
            Episode((names[number], *names[:number])[:b], None, 1.0, {"train": 60.0, "evaluate": 0.0})
            for number in range(tasks)
        ],
    )


BARE = {"refit_heads": False, "all_tasks": False}
BEYOND = {**dict.fromkeys(("whiten", "open_softmax", "read_layers", "supersede"), True), "chains": 3}


def warm(**fields: object) -> dict[str, object]:
    return {"name": "warm-start", **BARE, **fields}


def beyond_of(epochs: int = 1, **fields: object) -> dict[str, object]:
    """The settings of preset beyond, and others of its warm start."""
    recipe = {**settings_of(ModelZoo(recipe=Recipe(epochs=epochs)))["recipe"], "flip_tta": True}
    return {"grow": {"name": "warm-start", **asdict(WarmStart(**BEYOND)), **fields}, "recipe": recipe}


def test_costs_are_those_that_were_counted_in_thousands():
    counted = replace(run(0.7, grow=warm()), passes=2.0)
    counted.episodes = [replace(episode, rows_trained=500, rows_asked=1000) for episode in counted.episodes]
    row = next(line for line in beyond([counted]).splitlines() if "--no-refit-heads" in line)
    assert [cell.strip() for cell in row.split("|")][7:10] == ["2", "3", "2.0"]


def test_settings_that_were_deleted_are_shown_as_recorded_without_a_price():
    page = beyond([run(0.70), run(0.65, inherit="average", shrink=0.5)])
    row = next(line for line in page.splitlines() if line.startswith("| --inherit average --shrink 0.5"))
    assert [cell.strip() for cell in row.split("|")][7:10] == ["-", "-", "-"]


def test_settings_of_a_preset_that_were_deleted_are_told_and_have_no_command_and_no_part_in_todays_runs():
    then = [replace(run(0.8, **beyond_of(held_out=0.1)), command="zoo run --preset beyond"), run(0.6, 1, **beyond_of())]
    page = beyond([run(0.7), *then])
    rows = [
        [cell.strip() for cell in line.split("|")[1:4]] for line in page.splitlines() if line.startswith("| preset")
    ]
    assert rows == [["preset beyond", "1", "60.00"], ["preset beyond --held-out 0.1", "1", "80.00"]]
    assert "\n# no command of this version repeats model-zoo on split-cifar100 with --held-out 0.1\n" in page
    assert "zoo run --preset beyond" not in page
    opening = page.split("## Every setting")[0]
    assert "60.00" in opening
    assert "80.00" not in opening


def test_nets_that_share_nothing_stand_beside_the_presets_with_the_same_ideas():
    recipe = {**settings_of(ModelZoo(recipe=Recipe(epochs=1)))["recipe"], "flip_tta": True}
    apart = {"all_tasks": False, "chains": 20, "whiten": True, "read_layers": True}
    grow = {"name": "warm-start", **asdict(WarmStart(**apart))}
    whole = run(0.8, grow=grow, recipe=recipe, replay=0.0, tasks_per_episode=1)
    chained = run(0.8, grow={**grow, "chains": 3}, recipe=recipe, replay=0.0, tasks_per_episode=1)
    table = [beyond([each]).partition("## Every setting")[0] for each in (whole, chained)]
    assert ["| nets that share nothing, same ideas |" in each for each in table] == [True, False]


def test_the_preset_is_called_by_its_name():
    assert "| preset beyond " in beyond([run(0.7), run(0.8, **beyond_of())])
    assert "| preset beyond" not in beyond([run(0.7), run(0.8, **beyond_of(chains=2))])


def test_the_page_opens_on_the_presets_beside_the_papers_zoo_in_one_pass():
    others = [run(0.9, tasks_per_episode=2), run(0.91, replay=0.1), run(0.92, grow=warm())]
    opening = beyond([run(0.70), run(0.72, 1), run(0.8, **beyond_of()), *others]).split("## Every setting")[0]
    first = (
        "One pass over `split-cifar100`, all rows kept: the paper's zoo 71.00 ± 1.41, preset beyond 80.00 (one seed)."
    )
    assert first in opening
    assert opening.count("| split-cifar100 |") == 2
    assert not any(other in opening for other in ("90.00", "91.00", "92.00"))
    assert "One pass over" not in beyond([run(0.7, replay=0.1), run(0.8, replay=0.1, **beyond_of())])


def test_more_epochs_are_rows_of_their_own_and_accuracy_without_a_task_is_of_runs_that_have_it():
    def preset(accuracy, seed=0, epochs=1):
        return run(accuracy, seed, **beyond_of(epochs))

    untold = Untold({f"task {number}": 0.25 for number in range(3)}, None, 9, {f"task {k}": 0.5 for k in range(3)})
    page = beyond([run(0.7), preset(0.8), replace(preset(0.82, 1), untold=untold), preset(0.9, epochs=10)])
    rows = [[cell.strip() for cell in line.split("|")[2:8]] for line in page.splitlines() if line.startswith("| split")]
    assert rows == [
        ["1", "100%", "the paper's zoo", "1", "70.00", "-"],
        ["1", "100%", "preset beyond", "2", "81.00 ± 1.41", "50.00"],
        ["10", "100%", "preset beyond", "1", "90.00", "-"],
    ]


def test_what_each_idea_is_worth_is_taken_from_the_study_of_them():
    alone, beside = (
        Series("gain", ["whitening", "three chains"], gains, [0.1, 0.2], notes=[f"{cost} / 20", ""])
        for gains, cost in (([2.0, -1.0], 30), ([1.5, 0.25], 40))
    )
    chart = Plot([Panel("alone", [alone]), Panel("beside", [beside])], "points")
    figure = Figure("tricks", "What each is worth", "Judged by rows.", {"": chart}, commands=["zoo study tricks x"])
    page = beyond([run(0.7)], studies=[Study("tricks", "x", {}, [figure]), Study("replay", "x", {}, [])])
    found = page.partition("## What each is worth\n\nJudged by rows.")[2].splitlines()
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in found if line.startswith("|")]
    assert cells[2:4] == [
        ["whitening", "+2.00 ± 0.10", "30 / 20", "+1.50 ± 0.10", "40 / 20"],
        ["three chains", "-1.00 ± 0.20", "", "+0.25 ± 0.20", ""],
    ]
    assert "Deleted since, and among the others here: whitening (" in page
    assert "`zoo study tricks x`" in found


def test_rows_stand_beside_the_papers_of_their_own_budget_and_losses_are_named():
    limited = [run(0.75, replay=0.1), run(0.76, replay=0.1, grow=warm(all_tasks=True))]
    runs = [
        run(0.70),
        run(0.72, 1),
        run(0.80, grow=warm()),
        run(0.6, grow=warm(chains=2)),
        *limited,
        run(0.7, replay=0.5),
    ]
    page = beyond(runs)
    full, limited = page.split("<summary>")[1:]  # a budget that nothing else was tried with has no section
    assert "71.00 ± 1.41" in full
    assert "--grow warm-start --no-refit-heads" in full
    assert "+10.00" in full, "0.80 over 0.70 of the same seed"
    assert "--chains 2` -10.00" in full.partition("Lost: ")[2]
    assert limited.startswith("split-cifar100, --epochs 1 --replay 0.1")
    assert "75.00" in limited
    assert "| --grow warm-start --no-refit-heads " in limited
    assert "+1.00" in limited


def test_gains_are_counted_seed_by_seed():
    runs = [run(0.70), run(0.76, 1), run(0.5, 2), run(0.74, grow=warm()), run(0.82, 1, grow=warm())]
    assert "| +5.00 ± 1.41 |" in beyond(runs)


def test_a_part_of_the_data_is_named():
    part = run(0.5, grow=warm())
    part.train_samples = [400] * 3
    assert "<summary>split-cifar100, --epochs 1, 400 rows a task at hand</summary>\n" in beyond([part])


def test_the_front_of_the_reproduction_sums_preset_beyond_up():
    half = {"precision": "bfloat16"}
    recipe = {**beyond_of()["recipe"], **half}
    runs = [run(0.8, **{**beyond_of(), "recipe": recipe}), run(0.82, 1, **{**beyond_of(), "recipe": recipe})]
    assert sum_up(runs) == "81.00 ± 1.41 on split-cifar100"
    assert sum_up([run(0.8), run(0.8, replay=0.1, **{**beyond_of(), "recipe": recipe})]) == ""


def test_the_opening_table_leaves_out_what_had_a_part_of_the_data():
    part, whole = run(0.5), run(0.8, **beyond_of())
    part.train_samples, whole.train_samples = [400] * 3, [2500] * 3
    opening = beyond([part, whole]).split("## Every setting")[0]
    assert "80.00" in opening
    assert "50.00" not in opening


def test_a_long_stream_is_told_stretch_by_stretch_and_a_short_one_is_not():
    long = run(0.0, tasks=100)
    long.accuracy = [[0.5] * number + [number / 100] for number in range(100)]
    long.episodes = [
        replace(
            episode, rows_trained=2 * number, rows_asked=1000 + 2 * number, seconds={"train": number, "evaluate": 2.0}
        )
        for number, episode in enumerate(long.episodes)
    ]
    page = beyond([long, run(0.9)])
    section = page.partition("## A long stream: 100 tasks of split-cifar100\n")[2].partition("##")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines() if "| " in line]
    assert rows[0][2:] == ["to 20", "to 40", "to 60", "to 80", "to 100"]
    assert {row[0] for row in rows[1:]} == {"model-zoo"}
    assert [row[1:] for row in rows[1:]] == [
        ["of all so far", "48.45", "49.73", "50.15", "50.36", "50.49"],
        ["when learned", "9.50", "29.50", "49.50", "69.50", "89.50"],
        ["rows trained", "19", "59", "99", "139", "179"],
        ["rows asked", "1,019", "1,059", "1,099", "1,139", "1,179"],
        ["seconds of learning", "9.5", "29.5", "49.5", "69.5", "89.5"],
        ["seconds of answers", "2.0", "2.0", "2.0", "2.0", "2.0"],
    ]
    long.episodes[3] = replace(long.episodes[3], rows_asked=None)
    assert "| rows asked" not in beyond([long])
    assert "A long stream" not in beyond([run(0.9)])


def test_a_whole_run_stands_beside_shorter_ones_as_it_was_after_as_many_tasks():
    whole = run(0.7, tasks=3)
    whole.accuracy = [[0.5], [0.6, 0.6], [0.7, 0.7, 0.7]]
    short = run(0.65, tasks=2, grow=warm(), benchmark={"first_tasks": 2})
    section = next(part for part in beyond([whole, short]).split("<summary>") if "--first-tasks 2" in part)
    assert "60.00" in section
    assert "+5.00" in section
