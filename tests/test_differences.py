"""What runs say together: whether one is above another, in one sentence, and differences seed by seed."""

from dataclasses import replace
from statistics import stdev

import pytest

from evidence_toys import TASKS, finished_run
from zoolearn.cli import main
from zoolearn.errors import SettingsError
from zoolearn.lab.differences import ONE_ORDER, differences, pair_groups
from zoolearn.lab.groups import group_by_settings
from zoolearn.lab.report import report
from zoolearn.lab.sections import accuracies, conclusion, find_common, sections


def group(method, accuracies, seeds=None, tasks=None):
    """Runs that end at these accuracies, a seed each."""
    runs = []
    for place, value in enumerate(accuracies):
        run = finished_run(method, (seeds or range(9))[place], base=0)
        run.accuracy = [[value] * (episode + 1) for episode in range(len(TASKS))]
        run.tasks = tasks[place] if tasks else TASKS
        runs.append(run)
    return runs


def difference(mine, theirs):
    return pair_groups(*(group_by_settings(runs)[0] for runs in (mine, theirs)))


def test_seeds_are_compared_with_themselves_not_with_the_mean():
    # 2, 3, 4 points in spite of seeds that differ by 20; Student's factor for 3 pairs is 4.3027
    found = difference(group("er", [0.52, 0.63, 0.74]), group("ewc", [0.5, 0.6, 0.7]))
    assert found.mean == pytest.approx(3)
    assert found.half == pytest.approx(4.3027 * stdev([2, 3, 4]) / 3**0.5, rel=1e-4)
    assert str(found) == "+3.00 [+0.52, +5.48]"


def test_only_seeds_that_both_have_count():
    found = difference(group("er", [0.6, 0.7], seeds=[0, 1]), group("ewc", [0.5, 0.1], seeds=[1, 2]))
    assert (found.pairs, found.mean, found.half) == (1, pytest.approx(20), None)
    assert difference(group("er", [0.6]), group("ewc", [0.5], seeds=[7])) is None


def test_one_order_of_tasks_is_told_and_several_are_not():
    orders = [TASKS, TASKS[::-1]]
    assert difference(group("er", [0.6, 0.7]), group("ewc", [0.5, 0.6])).one_order
    assert not difference(group("er", [0.6, 0.7], tasks=orders), group("ewc", [0.5, 0.6], tasks=orders)).one_order
    assert not difference(group("er", [0.6]), group("ewc", [0.5])).one_order, "one seed says nothing of orders"
    assert ONE_ORDER in differences([*group("er", [0.6, 0.7]), *group("ewc", [0.5, 0.6])], "ewc").notes
    assert ONE_ORDER not in differences([*group("er", [0.6]), *group("ewc", [0.5])], "ewc").notes, "no interval at all"


def said(*runs):
    (section,) = sections([run for each in runs for run in each])
    return conclusion(section)


def test_the_conclusion_says_best_only_where_chance_is_unlikely():
    assert said(group("ewc", [0.5, 0.6, 0.7]), group("er", [0.52, 0.63, 0.74])) == (
        "er is best: 63.00 ± 11.00 % average accuracy over 4 tasks, 3.00 points above ewc "
        "(95 % interval +0.52 to +5.48 over 3 seeds)."
    )
    assert said(group("ewc", [0.5, 0.7]), group("er", [0.6, 0.61])).startswith(
        "er and ewc cannot be told apart: 60.50 ± 0.71 and 60.00 ± 14.14 % average accuracy over 4 tasks (95 % interval -"
    )
    assert said(group("ewc", [0.5]), group("er", [0.6])) == (
        "er is highest: 60.00 % average accuracy over 4 tasks, 10.00 points above ewc (one seed in common, so no interval)."
    )
    assert said(group("er", [0.5])) == "er reaches 50.00 % average accuracy over 4 tasks, 1 seed."
    assert said([finished_run(episodes=2)]) == "No run has met all tasks yet."


def test_the_conclusion_says_in_what_else_the_two_methods_differ():
    longer = finished_run("er", epochs=7, base=0.9)
    assert said([longer], [finished_run("ewc")]).endswith("; the two also differ in epochs.")


def test_settings_that_are_equal_are_said_once_and_the_best_stands_first():
    (section,) = sections([*group("ewc", [0.5, 0.6]), *group("er", [0.7, 0.8]), finished_run("si", episodes=1)])
    table = accuracies(section)
    assert [row[0] for row in table.rows] == ["er", "ewc", "si, 1/4 episodes"]
    assert [row[1] for row in table.rows][:2] == ["75.00 ± 7.07", "55.00 ± 7.07"]
    assert table.best == {(0, 1)}
    assert "epochs 1" in find_common(section)


def test_the_table_of_differences_names_its_reference_and_refuses_what_is_unclear():
    zoos = [finished_run(replay=share, base=0.5 + share / 10) for share in (0.1, 0.5)]
    table = differences([*zoos, finished_run("isolated", base=0.4)], "isolated")
    assert table.header[3] == "above isolated"
    assert [row[1] for row in table.rows] == ["model-zoo (replay=0.5)", "model-zoo (replay=0.1)"]
    with pytest.raises(
        SettingsError, match=r"'model-zoo' is 2 groups of runs on split-digits; give one of 'model-zoo "
    ):
        differences(zoos, "model-zoo")
    with pytest.raises(SettingsError, match="isolate"):
        differences(zoos, "isolate")


def test_seeds_that_were_lost_stand_in_the_table_of_differences():
    lost = [replace(finished_run(method, 1, episodes=2), diverged="the loss is nan") for method in ("er", "ewc", "si")]
    table = differences([finished_run("er"), finished_run("ewc", base=0.5), *lost], "er")
    assert [(row[1], *row[3:]) for row in table.rows] == [
        ("ewc", "-10.00", "1, 1 of 2 diverged"),
        ("si", "-", "0, 1 of 1 diverged"),
    ]
    assert "Of er on split-digits, 1 of 2 diverged." in table.notes


def test_runs_of_one_seed_in_orders_made_by_hand_are_neither_paired_nor_left_out():
    (other,) = group("ewc", [0.5], tasks=[TASKS[::-1]])
    assert [row[3:] for row in differences([*group("er", [0.6]), other], "er").rows] == [("-", "0")]
    assert report([*group("ewc", [0.7]), other]).rows[0][2] == "2 orders"


def test_the_command_prints_differences(tmp_path, capsys):
    for method, base in (("er", 0.6), ("ewc", 0.5)):
        for seed in (0, 1):
            finished_run(method, seed, base=base).save(tmp_path / f"{method}-{seed}")
    main(["report", str(tmp_path), "--against", "ewc", "--format", "latex"])
    printed = capsys.readouterr().out
    assert "split-digits & er & 64.60 $\\pm$ 0.14 & +10.00 [" in printed
    assert ONE_ORDER in printed
