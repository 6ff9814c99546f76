/**
 * Removes names that identify people and machines from traces before the traces are audited: the names of hosts, users,
 * files and folders, Python frames, and annotations. All outputs are made from the redacted traces, so no output can
 * contain a removed name.
 *
 * Redaction keeps the names of kernels, runtime calls and operators, and all times, shapes and numbers. Equal names get
 * equal replacements, so that groups and repeated work are still recognised.
 */
import { type Communication, Kind, type RankTimeline, type Timeline } from '../timeline/timeline.ts'
import type { Warning, WarningClass } from '../timeline/warnings.ts'
import type { Traces } from './open.ts'

/** The classes of warnings that, apart from a file name, consist of fixed words and numbers. */
const plainWarnings: ReadonlySet<WarningClass> = new Set(['correlation', 'missing-ranks', 'truncated'])

export function redact(traces: Traces): Traces {
  const { called } = traces
  return {
    ...traces,
    timeline: redactTimeline(traces.timeline),
    sources: traces.sources.map((source, i) => ({ ...source, path: `trace ${i + 1}` })),
    warnings: traces.warnings.map((one) => redactWarning(one, called)),
    called: called.map((_, i) => `trace ${i + 1}`),
  }
}

function redactWarning({ class: kind, message, count }: Warning, called: readonly string[]): Warning {
  const file = called.findIndex((name) => message.startsWith(`${name}: `))
  const text = file < 0 ? message : message.slice(called[file].length + 2)
  const where = file < 0 ? '' : `trace ${file + 1}: `
  const isPlain = plainWarnings.has(kind) && /^[\w ,;.:'()-]+$/.test(text)
  return {
    class: kind,
    message: where + (isPlain ? text : '--redact leaves out the details of this warning'),
    count,
  }
}

function redactTimeline({ ranks, names }: Timeline): Timeline {
  const labels = new Labels(names)
  const redacted = ranks.map((rank) => redactRank(rank, labels))
  return { ranks: redacted, names: labels.names }
}

function redactRank(rank: RankTimeline, labels: Labels): RankTimeline {
  const { events } = rank
  const name = new Uint32Array(events.length)
  for (let event = 0; event < events.length; event++)
    name[event] = labels.of(events.name[event], events.kind[event])
  return {
    ...rank,
    device: rank.device === null ? null : scrub(rank.device),
    events: { ...events, name },
    communications: rank.communications.map((call) => labels.communication(call)),
    operands: rank.operands.map(({ shapes, types }) => ({ shapes, types: types.map(typeName) })),
  }
}

/**
 * Matches operator names that a library defines: namespace and name, backward function, or fixed name of the profiler.
 */
const operator =
  /^(?:[A-Za-z_]\w*(?:::[A-Za-z_~][\w.]*)+|\w+Backward\d*|nccl:\w+|Optimizer\.(?:step|zero_grad)#\w+\.(?:step|zero_grad)|enumerate\(DataLoader\)#\w+\.__next__|Torch-Compiled Region: [\d/]+)$/
const pythonFrame = /\.pyx?\b|^<(?:built-in|frozen|string|module)|^nn\.Module: /

/** Assigns new names. */
class Labels {
  readonly names: string[] = []
  private readonly ids = new Map<string, number>()
  private readonly old: readonly string[]
  /** For each original name and each kind of event: the name that replaces it. */
  private readonly known = new Map<number, number>()
  private readonly numbers = new Map<string, Map<string, number>>()

  constructor(old: readonly string[]) {
    this.old = old
  }

  of(name: number, kind: number): number {
    const key = name * 16 + kind
    let id = this.known.get(key)
    if (id === undefined) this.known.set(key, (id = this.intern(this.label(this.old[name], kind))))
    return id
  }

  communication(call: Communication): Communication {
    const numbered = (what: string, text: string | null): string | null =>
      text === null ? null : `${what} ${this.number(what, text)}`
    return {
      ...call,
      group: numbered('group', call.group),
      groupDescription: call.groupDescription === null ? null : groupWord(call.groupDescription),
      communicator: numbered('communicator', call.communicator),
      dtype: call.dtype === null ? null : typeName(call.dtype),
    }
  }

  private label(name: string, kind: number): string {
    if (kind === Kind.annotation) return `annotation ${this.number('annotation', name)}`
    if (kind === Kind.step) return `ProfilerStep#${/\d+/.exec(name)?.[0] ?? this.number('step', name)}`
    if (kind === Kind.frame || pythonFrame.test(name)) return `Python frame ${this.number('frame', name)}`
    if (kind === Kind.operator && !operator.test(name)) return `operator ${this.number('operator', name)}`
    return scrub(name)
  }

  private number(what: string, text: string): number {
    let known = this.numbers.get(what)
    if (known === undefined) this.numbers.set(what, (known = new Map<string, number>()))
    let number = known.get(text)
    if (number === undefined) known.set(text, (number = known.size + 1))
    return number
  }

  private intern(name: string): number {
    let id = this.ids.get(name)
    if (id === undefined) {
      id = this.names.push(name) - 1
      this.ids.set(name, id)
    }
    return id
  }
}

/** Removes paths, addresses of users and hosts, and file names from a name. */
const scrub = (name: string): string =>
  name
    .replace(/[\w.+-]+@[\w.-]+/g, '…')
    .replace(/(?:\b[A-Za-z]:)?(?:[\\/][\w.@+~-]+){2,}[\\/]?/g, '…')
    .replace(/\b[\w-]+\.(?:py|pyx|cu|cuh|cpp|cc|h|hpp|json|so)\b/g, '…')

/** The descriptions of process groups that only state the purpose of the group. */
const groupWords =
  /^(?:default_pg|undefined|world|(?:mesh_)?(?:tp|dp|pp|ep|cp|sp|fsdp|hsdp|tensor|data|pipeline|expert|context|sequence|model|shard|replicate|embedding)(?:_?(?:parallel|model_parallel|group|pg))*(?:_?group)?)$/i

const groupWord = (text: string): string | null => (groupWords.test(text) ? text : null)

/**
 * Returns the name of a tensor type if Arke knows the type, and an empty text if not, so that no free text is kept.
 */
const typeName = (text: string): string =>
  /^(?:c10::)?(?:B?Float\d*\w{0,8}|Half|Double|Int\d*|Long|Short|Byte|Char|Bool|U?Int\d+|Complex\w{0,8}|float|double|int|bool|long( int)?|short( int)?|signed char|unsigned char|Scalar|ScalarList|TensorList|GenericList|Tensor|Device|Dict|Generator|)$/.test(
    text,
  )
    ? text
    : ''
