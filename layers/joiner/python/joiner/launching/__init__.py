"""Launching: claims become fleet requests, and the fleet's answer becomes outcomes. Pure: EC2 itself is asked by the adapters.

In the order of a scale-up: ``questions`` (what to ask EC2 about a class) and ``resolve`` (what its answers mean), ``group_launches``
(claims that share one request, with user data and launch templates), ``read_answer`` (what was launched, what was short, what failed).
May use ``pools`` and ``catalogue``.
"""

from joiner.launching.ceilings import Allowed, Ceilings
from joiner.launching.grouping import Refusal, Wanted, group_launches
from joiner.launching.launch import Launch, Template
from joiner.launching.offers import Offer
from joiner.launching.outcome import Failure, Launched, Outcome, Short, pair, read_answer, read_refusal
from joiner.launching.questions import ImageQuestion, Questions, questions
from joiner.launching.resolving import Found, resolve
from joiner.launching.user_data import Cluster
from joiner.launching.volumes import EbsDefaults

__all__ = [
    "Allowed",
    "Ceilings",
    "Cluster",
    "EbsDefaults",
    "Failure",
    "Found",
    "ImageQuestion",
    "Launch",
    "Launched",
    "Offer",
    "Outcome",
    "Questions",
    "Refusal",
    "Short",
    "Template",
    "Wanted",
    "group_launches",
    "pair",
    "questions",
    "read_answer",
    "read_refusal",
    "resolve",
]
