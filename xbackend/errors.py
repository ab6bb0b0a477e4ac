"""Every error that xbackend raises on purpose.

A message says what happened, where (the user's file and line when a program is being traced, the backend when one is
running), and what to type next. Anything else that escapes is a bug.

>>> try:
...     xp.zeros(2) + xp.zeros(3)
... except xb.errors.XBackendError as error:
...     print(type(error).__name__, isinstance(error, ValueError))
ShapeError True
"""

from __future__ import annotations


class XBackendError(Exception):
    """Base of all errors of xbackend."""


class DeviceError(XBackendError):
    """Something about a device."""


class DeviceSpellingError(DeviceError, ValueError):
    """Text that names no device in any known spelling."""


class DeviceUnavailable(DeviceError):
    """The backend does not have a requested device; the message names those it has."""


class ClusterError(XBackendError, ValueError):
    """An invalid cluster, a task that it does not have, or a lost task; the message names the task."""


class DeviceMemoryError(DeviceError):
    """A program holds more bytes on a device at once than ``device_memory`` allows."""


class UnboundDevice(DeviceError):
    """A program uses a logical device name that was not bound to a device when it was compiled."""


class PlacementError(DeviceError):
    """An op did not or cannot run where the program asked for it."""


class TraceError(XBackendError):
    """The user's function cannot be traced; the message ends with the user's file and line."""


class GraphError(TraceError):
    """A framework's graph that cannot become a program; the message names what programs lack."""


class ShapeError(TraceError, ValueError):
    """Shapes that do not fit the operation."""


class DTypeError(TraceError, TypeError):
    """A dtype that is not supported, or a mix of dtypes that the Array API standard leaves undefined."""


class NoSuchElement(ShapeError, IndexError):
    """An index or a mask that does not fit the array."""


class NoSuchMethod(TraceError, AttributeError):
    """A method that arrays of other libraries have; the message says what to write here."""


class GradientError(TraceError):
    """A gradient that does not exist."""


class ProgramError(XBackendError):
    """Something about a stored program."""


class ProgramFormatError(ProgramError):
    """A damaged program file, or another kind of file."""


class ProgramVersionError(ProgramError):
    """A program file written by a newer version of xbackend."""


class ArgumentError(XBackendError, TypeError):
    """An executable was called with the wrong number, shapes or dtypes of arguments."""


class CopyNeeded(XBackendError, ValueError, BufferError):
    """An array cannot be given without a copy, and the caller forbade one."""


class SharedVariableError(XBackendError):
    """An impossible use of a shared variable."""


class BackendError(XBackendError):
    """Something about a backend."""


class UnknownBackend(BackendError, LookupError):
    """No backend of that name is registered; the message lists those that are."""


class BackendUnavailable(BackendError):
    """A backend that cannot run here; the message says why and what to type."""


class BackendClosed(BackendError):
    """A backend, or something that lives on it, was used after it was closed."""


class UnsupportedOperation(BackendError):
    """A framework cannot do an operation of the program in this mode; the message names both and gives the reason."""


class ComputationError(BackendError):
    """A framework raises an error for numbers for which others give NaN, as for a singular matrix."""


class EnvironmentFailed(XBackendError):
    """A framework's environment could not be created, read or removed."""


class WorkerError(XBackendError):
    """A worker process did not do its job."""


class WorkerDied(WorkerError):
    """A worker process ended by itself or by a signal; the message names the backend and the signal."""


class WorkerAborted(WorkerDied):
    """A worker process that its own framework ended (SIGABRT), in a cluster perhaps for the loss of another task."""


class WorkerTimeout(WorkerError):
    """A worker process did not answer within its limit and was ended."""


class ParityError(XBackendError):
    """A result is not equal to the oracle's within the tolerance of its workload."""


class TimingError(XBackendError):
    """Seconds that do not say how long the work took."""


class MachineBusy(XBackendError):
    """Seconds that may not say how long the work took, on a machine whose cores others keep busy."""


class WorkloadError(XBackendError):
    """A workload that does not exist, or parameters that it does not take."""


class StoreError(XBackendError):
    """Stored results that cannot be read or written."""


class DamagedStore(StoreError):
    """A stored file whose content is not as it was written; the message names it and says what to do."""


class StoreVersionError(StoreError):
    """Stored results written by a newer version of xbackend."""


class CheckpointError(StoreError):
    """A checkpoint that cannot be read, or is of another model; the message says what to do."""


class TrainingError(XBackendError):
    """A training that cannot go on; the message says at which step and why."""


class UsageError(XBackendError):
    """A command line that asks for something missing; the message says what would be right."""
