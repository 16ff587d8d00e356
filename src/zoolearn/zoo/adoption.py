"""Makes a zoo folder of a finished run of Model Zoo: its members, and the data of its benchmark."""

from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

from zoolearn.data.benchmarks import reload_benchmark
from zoolearn.errors import SettingsError
from zoolearn.methods.model_zoo import ModelZoo
from zoolearn.runs.store import RunFolder, load
from zoolearn.seeds import derive
from zoolearn.training.step import Step
from zoolearn.zoo.disk.entries import EpisodeEntry
from zoolearn.zoo.disk.folder import ZooFolder
from zoolearn.zoo.disk.index import Index
from zoolearn.zoo.intake.intake import store_task
from zoolearn.zoo.learning.episode import keep_arrival, make_entry, measure, now, write_member
from zoolearn.zoo.settings import ZooSettings
from zoolearn.zoo.zoo import Zoo


def iter_adopt(folder: Path | str, run: Path | str, data: Path | str | None = None) -> Generator[Step, None, Zoo]:
    """Makes a zoo of a run, episode by episode: copies members, computes their votes again, and stores rows."""
    source, zoo = RunFolder(Path(run)), ZooFolder(Path(folder))
    zoo.check_used()
    header = source.header()
    if header["method"] != "model-zoo":
        raise SettingsError(f"{run} is a run of {header['method']}; only a run of model-zoo is a zoo")
    learner = load(run)
    assert isinstance(learner, ModelZoo)
    tasks = reload_benchmark(header, data, source.path)
    records = source.episodes()
    settings = replace(ZooSettings.of(learner), shape=learner.shape)
    index = Index(settings, settings).with_log("made", now(), detail=f"from a run of {header['benchmark']}")
    with zoo.begin_zoo():
        for episode, (record, task) in enumerate(zip(records, tasks, strict=False), start=1):
            yield Step("adopting", episode - 1, len(records))
            settled, arrival = store_task(zoo, index, task)
            index = settled.with_arrival(keep_arrival(zoo, arrival, task, learner, seen_by=episode))
            member = learner.members[episode - 1]
            names = record.episode.tasks
            seed = derive(learner.seed, "episode", episode - 1)
            costs = record.episode.seconds["train"], record.episode.rows_trained
            made = make_entry(member, episode, names, seed, *costs)
            made = write_member(zoo, index, made, member.net, learner.recipe, {})
            index = index.with_member(made)
            done = EpisodeEntry(episode, task.name, names, now(), measure(zoo, index, made.heads))
            index = index.end_episode(done)
        zoo.commit(index.with_log("adopted", now(), detail=f"of a run of {len(records)}"))
    return Zoo(folder)
