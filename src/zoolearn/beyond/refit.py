"""A head for the rows that a task has by now, on features that an earlier member has learned: seconds instead of a training."""

from zoolearn.beyond.warm_start import WarmStart
from zoolearn.data.task import Task
from zoolearn.methods.ensemble import Member
from zoolearn.methods.model_zoo import ModelZoo


def refit_head(zoo: ModelZoo, member: Member, task: Task) -> Member:
    """A member that sees as another does, with one head, fitted to all rows of a task that are at hand."""
    net = zoo.new_net([task], member.net.seed)
    if member.net.blocks:
        net.read_layers()
    net.backbone.load_state_dict(member.net.backbone.state_dict())
    if net.standardize:  # its features are those of inputs on this scale
        scale = member.net.columns[member.net.head_index[task.name]]
        net.columns[0].load_state_dict(scale.state_dict())
    grow = zoo.grow if isinstance(zoo.grow, WarmStart) else WarmStart(vote_sharpness=0.0, held_out=0.0)
    vote = grow.fitted_vote(zoo, net.freeze(), task)
    return Member(net.freeze(), {task.name: vote}, member.loss, zoo.episode, trained=False)
