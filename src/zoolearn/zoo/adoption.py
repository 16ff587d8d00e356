"""A zoo folder made of a finished run of Model Zoo: its members, and the data of its benchmark."""

from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

from zoolearn.data.benchmarks import recorded_benchmark
from zoolearn.errors import SettingsError
from zoolearn.methods.model_zoo import ModelZoo
from zoolearn.runs.store import RunFolder, load
from zoolearn.seeds import derive
from zoolearn.training.fit import Step
from zoolearn.training.recipe import Recipe
from zoolearn.zoo.folder import ZooFolder
from zoolearn.zoo.index import EpisodeEntry, Index, MemberEntry
from zoolearn.zoo.intake import taken_in
from zoolearn.zoo.learning import kept_rows, measure, now, with_adopted, written
from zoolearn.zoo.lineage import heritage
from zoolearn.zoo.settings import BEYOND, ZooSettings
from zoolearn.zoo.zoo import Zoo


def adopting(folder: Path | str, run: Path | str, data: Path | str | None = None) -> Generator[Step, None, Zoo]:
    """Makes a zoo of a run, episode by episode: members are taken over, their votes asked again, rows stored."""
    source, zoo = RunFolder(Path(run)), ZooFolder(Path(folder))
    zoo.refuse_used()
    header = source.header()
    if header["method"] != "model-zoo":
        raise SettingsError(f"{run} is a run of {header['method']}; only a run of model-zoo is a zoo")
    learner = load(run)
    assert isinstance(learner, ModelZoo)
    tasks = recorded_benchmark(header, data, source.path)
    records = source.episodes()
    settings = _settings(learner)
    index = Index(settings, settings).after("made", now(), detail=f"from a run of {header['benchmark']}")
    with zoo.beginning():
        for episode, (record, task) in enumerate(zip(records, tasks, strict=False), start=1):
            yield Step("adopting", episode - 1, len(records))
            settled, entry = taken_in(zoo, index, task)
            kept = task.keep(learner.replay, derive(learner.seed, "replay")) if learner.replay else None
            entry = replace(entry, train=kept_rows(zoo, kept, entry))
            index = replace(settled, tasks={**index.tasks, task.name: entry})
            member = learner.members[episode - 1]
            names = tuple(record["tasks"])
            parents = tuple(place + 1 for place in member.parents)
            made = MemberEntry(
                number=episode,
                episode=episode,
                tasks=names,
                seed=derive(learner.seed, "episode", episode - 1),
                share={name: member.share[name] for name in names},
                silent=(),
                file="",
                votes="",
                bytes=0,
                loss=float(record["loss"] or 0.0),
                seconds=float(record["seconds"]["train"]),
                parents=parents,
                heritage=heritage(parents, index.members),
            )
            index = replace(index, members=(*index.members, written(zoo, index, made, member.net, learner, {})))
            index = with_adopted(zoo, index, _as_of(learner, list(index.tasks)), episode)
            measures = measure(zoo, index, list(index.tasks) if learner.adoption else names)
            done = EpisodeEntry(episode, task.name, names, dict(record["weights"] or {}), now(), measures)
            index = replace(index, episodes=(*index.episodes, done), measures={**index.measures, **measures})
        zoo.commit(index.after("adopted", now(), detail=f"{len(records)} episode(s)"))
    return Zoo(folder)


def _as_of(learner: ModelZoo, tasks: list[str]) -> ModelZoo:
    """The learner as it was when it had met these tasks: with their members, and heads for them alone."""
    earlier = replace(learner)
    for member in learner.members[: len(tasks)]:
        earlier.members.append(replace(member, adopted=member.adopted & set(tasks)))
    return earlier


def _settings(learner: ModelZoo) -> ZooSettings:
    plain = learner.settings()
    return replace(
        ZooSettings.chosen(
            backbone=learner.backbone,
            recipe=Recipe(**plain["recipe"]),
            seed=learner.seed,
            tasks_per_episode=learner.tasks_per_episode,
            replay=learner.replay,
            weigh=learner.weigh,
            beyond={name: getattr(learner, name) for name in BEYOND},
        ),
        shape=learner.shape,
    )
