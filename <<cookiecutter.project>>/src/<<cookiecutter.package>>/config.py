"""run.toml and `--set key=value`, checked as a whole, as frozen dataclasses."""

from __future__ import annotations

from dataclasses import replace
from re import fullmatch
from typing import Annotated, Literal

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from . import accelerator
from .shapes import PRESETS, Shape
from .slices import Slice, UnknownSliceError, check_count, find

STRICT = ConfigDict(extra="forbid", strict=True)
Count = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Name = Annotated[str, Field(pattern=r"^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$")]
Text = Annotated[str, Field(min_length=1)]
_SHARED = r"(projects/[a-z][-a-z0-9]+/reservations/)?"
LONGEST_HOURS = 90 * 24
MOST_RETRIES = 10
CAPACITY = rf"on-demand|spot|flex-start|reservation:{_SHARED}[a-z]([-a-z0-9]{{0,61}}[a-z0-9])?"
Texts = Annotated[tuple[Text, ...], Field(min_length=1)]


@dataclass(frozen=True, config=STRICT)
class Run:
    """A run's `name` is its identity: the same name goes on from its newest checkpoint.

    `project` is the label on everything that is rented for it.
    """

    project: Name
    name: Name
    storage: Text
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    retries: Annotated[int, Field(ge=0)] = 3

    @property
    def folder(self) -> str:
        return f"{self.storage.rstrip('/')}/{self.name}"


@dataclass(frozen=True, config=STRICT)
class Model:
    """A preset, and whatever of its shape is set beside it."""

    preset: Literal["tiny", "125m", "1b", "8b"] = "tiny"
    layers: Count | None = None
    width: Count | None = None
    heads: Count | None = None
    kv_heads: Count | None = None
    hidden: Count | None = None
    tied: bool | None = None

    def shape(self, vocabulary: int) -> Shape:
        keys = ("layers", "width", "heads", "kv_heads", "hidden", "tied")
        own = {key: getattr(self, key) for key in keys if getattr(self, key) is not None}
        return replace(PRESETS[self.preset], vocabulary=vocabulary, **own)

    def __post_init__(self) -> None:
        shape = self.shape(vocabulary=1)
        if shape.width % (2 * shape.heads):
            raise ValueError(
                f"model.width = {shape.width} does not divide into {shape.heads} heads of an even "
                f"size; set model.width to a multiple of {2 * shape.heads}"
            )
        if shape.heads % shape.kv_heads:
            raise ValueError(
                f"model.heads = {shape.heads} is no multiple of model.kv_heads = {shape.kv_heads}; "
                "each key head serves a whole number of query heads"
            )


@dataclass(frozen=True, config=STRICT)
class Data:
    """Where the text comes from and where its tokens lie."""

    input: Text
    shards: Text
    tokenizer: Text = "bytes"
    text_field: Text = "text"


@dataclass(frozen=True, config=STRICT)
class Train:
    """The schedule. `batch_size` counts sequences per optimizer step over all chips."""

    steps: Count
    batch_size: Count
    sequence_length: Annotated[int, Field(ge=2)]
    accumulation: Count = 1
    learning_rate: Positive = 1e-3
    warmup_steps: Annotated[int, Field(ge=0)] = 0
    final_learning_rate: Share = 0.1
    weight_decay: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.1
    clip: Positive = 1.0
    compute_dtype: Literal["bfloat16", "float32"] = "bfloat16"
    activation_checkpointing: bool = False

    @property
    def tokens_per_step(self) -> int:
        """Tokens that an optimizer step learns from, over all chips."""
        return self.batch_size * self.sequence_length

    def __post_init__(self) -> None:
        if self.batch_size % self.accumulation:
            raise ValueError(
                f"train.batch_size = {self.batch_size} does not divide into train.accumulation = "
                f"{self.accumulation} equal parts; set train.batch_size to a multiple of it"
            )
        if self.warmup_steps >= self.steps:
            raise ValueError(
                f"train.warmup_steps = {self.warmup_steps} leaves nothing of train.steps = "
                f"{self.steps}; set train.warmup_steps to {self.steps // 10}"
            )


@dataclass(frozen=True, config=STRICT)
class Checkpoint:
    """A checkpoint every so many steps; the newest `keep` stay."""

    every: Count
    keep: Count = 3


@dataclass(frozen=True, config=STRICT)
class Log:
    """A line for people every so many steps; metrics.jsonl holds them all."""

    every: Count = 10


@dataclass(frozen=True, config=STRICT)
class Hardware:
    """What the job runs on. A worker that finds something else stops at once."""

    accelerator: Text
    generation: Text
    topology: Text
    slices: Count = 1
    placement: Literal["slice", "any"] = "slice"
    workers: Count = 1
    virtual_devices: Annotated[int, Field(ge=0)] = 0
    fsdp: Annotated[int, Field(ge=0)] = 0

    @property
    def slice(self) -> Slice:
        return find(self.generation, self.topology)

    @property
    def world(self) -> int:
        """Worker processes: with placement = "slice" as many as the slices need, else `workers`."""
        if self.placement == "any":
            return self.workers
        per_host = self.slice.devices_per_host if self.accelerator == "tpu" else 1
        return self.slice.hosts * self.slices * per_host

    @property
    def devices(self) -> int:
        """Devices that share one step's batch, over all workers."""
        if self.accelerator != "xla":
            return self.world
        return self.world * (self.virtual_devices or self.slice.devices_per_host)

    @property
    def fsdp_devices(self) -> int:
        """Devices that a parameter is sharded over: by default those of one slice."""
        return self.fsdp or self.devices // (self.slices if self.placement == "slice" else 1)

    @property
    def tpus_per_worker(self) -> int:
        """Units of Ray's TPU resource that a worker of a slice takes."""
        return 1 if self.accelerator == "tpu" else self.slice.devices_per_host

    @property
    def peak_flops(self) -> float | None:
        """What all chips together can do in a second, bfloat16; None where they are no TPU."""
        if self.accelerator not in ("xla", "tpu") or self.virtual_devices:
            return None
        return self.slice.peak_flops * self.slice.chips * self.slices

    def __post_init__(self) -> None:
        names = accelerator.names()
        if self.accelerator not in names:
            raise ValueError(
                f'hardware.accelerator = "{self.accelerator}" is not in this project; '
                f"choose one of {', '.join(names)}"
            )
        try:
            check_count(self.slice, self.slices)
        except UnknownSliceError as error:
            raise ValueError(f"hardware: {error}") from None
        if self.virtual_devices and self.accelerator != "xla":
            raise ValueError(
                "hardware.virtual_devices belongs to torch_xla; set it to 0 or "
                'hardware.accelerator to "xla"'
            )
        if self.virtual_devices and self.world > 1:
            raise ValueError(
                f"torch_xla on virtual CPU devices is one process and this run needs {self.world}; "
                'set hardware.accelerator = "cpu" to rehearse several workers'
            )
        if (
            self.placement == "any"
            and self.accelerator in ("xla", "tpu")
            and not self.virtual_devices
        ):
            raise ValueError(
                'hardware.placement = "any" does not reserve TPU hosts; set it to "slice", '
                "or train on this machine's CPU with --local"
            )
        if self.devices % self.fsdp_devices:
            raise ValueError(
                f"hardware.fsdp = {self.fsdp} does not divide the {self.devices} devices; "
                "set it to a divisor, or to 0 for one slice"
            )


@dataclass(frozen=True, config=STRICT)
class Cloud:
    """Where the slice is rented, in which order of capacity kinds and zones, and for how much."""

    project: Text
    region: Text
    zones: Texts
    capacity: Texts
    cluster_mode: Literal["standard", "autopilot"]
    cluster: Name
    registry: Text
    budget_usd: Positive
    deadline_hours: Annotated[float, Field(gt=0, le=LONGEST_HOURS)]
    attempt_minutes: Annotated[float, Field(gt=0, le=24 * 60)] = 20
    pools: Literal["autoscaled", "fixed"] = "autoscaled"
    retries: Annotated[int, Field(ge=0, le=MOST_RETRIES)] = 0

    def __post_init__(self) -> None:
        for zone in self.zones:
            if zone.rpartition("-")[0] != self.region:
                raise ValueError(
                    f'cloud.zones: "{zone}" is no zone of {self.region}; the node pools of a '
                    "cluster lie in its own region"
                )
        kinds = list(self.capacity)
        for name, values in (("zones", self.zones), ("capacity", self.capacity)):
            if len(set(values)) < len(values):
                raise ValueError(f"cloud.{name}: each is named once, in the order to try them")
        if wrong := [kind for kind in kinds if not fullmatch(CAPACITY, kind)]:
            raise ValueError(
                f'cloud.capacity: "{wrong[0]}" is no kind of capacity; choose of on-demand, spot, '
                "flex-start and reservation:NAME"
            )
        if "flex-start" in kinds[:-1]:
            raise ValueError(
                "cloud.capacity: flex-start must come last: its nodes come only once the job waits "
                "for them, so nothing after it would ever be tried"
            )
        if self.pools == "fixed" and "flex-start" in kinds:
            raise ValueError(
                'cloud.pools = "fixed" cannot hold flex-start nodes; set it to "autoscaled"'
            )


<% if cookiecutter.framework == "torch_xla" %>
@dataclass(frozen=True, config=STRICT)
class Preflight:
    """What `ops preflight` holds the compiled step to. 0 stands for no limit."""

    hbm_share: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] = 1.0
    step_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    before_renting: bool = True


<% endif %>
@dataclass(frozen=True, config=STRICT)
class Config:
    """All of run.toml."""

    run: Run
    model: Model
    data: Data
    train: Train
    checkpoint: Checkpoint
    log: Log
    hardware: Hardware
    cloud: Cloud
<% if cookiecutter.framework == "torch_xla" %>
    preflight: Preflight = Preflight()
<% endif %>

    def __post_init__(self) -> None:
        micro = self.train.batch_size // self.train.accumulation
        if micro % self.hardware.devices:
            step = self.train.accumulation * self.hardware.devices
            raise ValueError(
                f"train.batch_size = {self.train.batch_size} does not spread over "
                f"{self.hardware.devices} devices and train.accumulation = "
                f"{self.train.accumulation}; set train.batch_size to a multiple of {step}"
            )
