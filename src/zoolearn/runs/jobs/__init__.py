"""Independent jobs: the one engine under several seeds, several methods, sweeps, studies and members side by side.

A `Job` is plain data: a name, a generator function of some module, and its arguments. What the generator yields comes
back as `Report`, what it returns as `Done`, what it raises as `Failed`; the other jobs go on. A job must not depend on
where it is done: then the results are the same, bit for bit, here, on all cores, and on a cluster.

    for event in map_jobs([Job("seed 0", train, (0,)), Job("seed 1", train, (1,))], Local(workers=2)):
        match event:
            case Report(job, content): ...
            case Done(job, result): ...
            case Failed(job, error): ...
"""

from collections.abc import Generator, Iterable, Sized

from zoolearn.runs.jobs.job import Done, Event, Failed, Job, Report, Shared, torch_threads, work_off
from zoolearn.runs.jobs.local import on_cores
from zoolearn.runs.jobs.place import ALL_CORES, Local, Place, Ray

__all__ = ["ALL_CORES", "Done", "Event", "Failed", "Job", "Local", "Place", "Ray", "Report", "Shared", "map_jobs"]


def map_jobs(jobs: Iterable[Job | None], place: Place = ALL_CORES) -> Generator[Event, None, None]:
    """Works off all jobs, first come first served.

    Events come as they happen, and work goes on while the caller handles them. Closing the generator, or Ctrl-C, stops
    all work where it is; the `finally` clauses of a job are carried out.

    Jobs that depend on how earlier ones ended come from a generator: it is asked for the next one when a worker is free
    and the caller has handled all events so far, and gives None when it can only tell after another job has ended.

    >>> def count(last):
    ...     for number in range(last):
    ...         yield number
    ...     return last
    >>> [type(event).__name__ for event in map_jobs([Job("two", count, (2,))])]
    ['Report', 'Report', 'Done']
    """
    if isinstance(place, Ray):
        from zoolearn.runs.jobs.on_ray import on_ray

        yield from on_ray(jobs, place)
    elif (workers := place.workers_for(len(jobs) if isinstance(jobs, Sized) else None)) > 1:
        yield from on_cores(jobs, workers, place.threads)
    else:
        with torch_threads(place.threads):
            for job in jobs:
                if job is None:  # nothing else is under way that could tell it more
                    return
                yield from work_off(job)
