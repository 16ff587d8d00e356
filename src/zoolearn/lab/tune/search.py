"""Proposes settings and stops trials: Optuna's samplers and its ASHA (Li et al., 2020), or Nevergrad's optimisers.

Their state is not saved: after a restart they are told the outcome of every trial again (extras `tune` and
`nevergrad`).
"""

from collections.abc import Mapping
from typing import Any

from zoolearn.errors import SettingsError
from zoolearn.lab.tune.space import Range, Space
from zoolearn.seeds import derive

REDUCTION = 3  # of the trials that reach a rung, the best third goes on


class Search:
    """Proposes settings, and is told values to be maximised."""

    def __init__(self, space: Space, kind: str, seed: int, trials: int) -> None:
        optuna = _optuna()
        self.kind, self.seed = kind, seed
        self.distributions = {name: _distribution(part) for name, part in space.items()}
        pruner = optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=REDUCTION)
        self.study = optuna.create_study(direction="maximize", pruner=pruner)
        if kind == "nevergrad":
            self.study.sampler = _nevergrad_sampler(space, derive(seed, "search") % 2**32, trials)

    def ask(self, settings: Mapping[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """A new trial and its settings: proposed, or those given.

        A proposal depends on the number of the trial and on earlier outcomes, not on when a search was resumed:
        each trial has an Optuna sampler with a seed of its own, and Nevergrad's optimiser is asked and told
        again of every trial in order.
        """
        if self.kind == "optuna":
            seed = derive(self.seed, "search", len(self.study.trials)) % 2**32
            self.study.sampler = _optuna().samplers.TPESampler(seed=seed, constant_liar=True)
            if settings is not None:
                self.study.enqueue_trial(dict(settings))
        else:
            self.study.sampler.given = settings
        trial = self.study.ask(self.distributions)
        return trial, dict(trial.params)

    def goes_on(self, trial: Any, rung: int, value: float) -> bool:
        """Whether a trial with this value at this rung is continued."""
        trial.report(value, REDUCTION**rung)
        return not trial.should_prune()

    def tell(self, trial: Any, value: float | None, *, stopped: bool) -> None:
        """The end of a trial: with a value, stopped, or without one."""
        states = _optuna().trial.TrialState
        if value is None:
            self.study.tell(trial, state=states.FAIL)
        elif stopped:
            self.study.tell(trial, state=states.PRUNED)
        else:
            self.study.tell(trial, value)


def _distribution(part: Any) -> Any:
    distributions = _optuna().distributions
    if not isinstance(part, Range):
        return distributions.CategoricalDistribution(part.values)
    kind = distributions.IntDistribution if part.whole else distributions.FloatDistribution
    return kind(part.low, part.high, log=part.logarithmic)


def _optuna() -> Any:
    try:
        import optuna
    except ImportError as error:
        raise SettingsError("the search needs Optuna; install it with: pip install 'zoolearn[tune]'") from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def _nevergrad_sampler(space: Space, seed: int, trials: int) -> Any:
    """Nevergrad's optimiser as one of Optuna's samplers."""
    optuna = _optuna()
    try:
        import nevergrad
    except ImportError as error:
        raise SettingsError(
            "this search needs Nevergrad; install it with: pip install 'zoolearn[nevergrad]'"
        ) from error
    parameters = nevergrad.p.Dict(**{name: _parameter(nevergrad.p, part) for name, part in space.items()})
    parameters.random_state.seed(seed)
    optimizer = nevergrad.optimizers.OnePlusOne(parameters, budget=trials)  # can be asked again before it is told

    class Sampler(optuna.samplers.BaseSampler):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            self.asked: dict[int, Any] = {}
            self.given: Mapping[str, Any] | None = None  # the settings of a trial that is told again

        def infer_relative_search_space(self, study: Any, trial: Any) -> dict[str, Any]:
            return {name: _distribution(part) for name, part in space.items()}

        def sample_relative(self, study: Any, trial: Any, search_space: Any) -> dict[str, Any]:
            self.asked[trial.number] = optimizer.ask()
            return dict(self.asked[trial.number].value if self.given is None else self.given)

        def sample_independent(self, study: Any, trial: Any, name: str, distribution: Any) -> Any:
            raise AssertionError("every setting is of the space")

        def after_trial(self, study: Any, trial: Any, state: Any, values: Any) -> None:
            if values is not None:
                proposed = self.asked.pop(trial.number)
                tried = trial.params == proposed.value  # not where trials side by side ended in another order
                mine = proposed if tried else parameters.spawn_child(new_value=dict(trial.params))
                optimizer.tell(mine, -values[0])

    return Sampler()


def _parameter(kinds: Any, part: Any) -> Any:
    if not isinstance(part, Range):
        return kinds.Choice(list(part.values))
    parameter = kinds.Log if part.logarithmic else kinds.Scalar
    scalar = parameter(lower=part.low, upper=part.high)
    return scalar.set_integer_casting() if part.whole else scalar
