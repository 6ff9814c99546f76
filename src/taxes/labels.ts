/**
 * Gives names (labels) to the device work of a chain of kernels. The label of device work is the name of its operator,
 * or otherwise the kernel's name without arguments. The operator of a CUDA graph only launched the graph and says
 * nothing about the kernels, so the kernels of a CUDA graph are labelled with their own names.
 */
import { type Events, NONE, type RankTimeline } from '../timeline/timeline.ts'

const LONGEST = 80

/** A kernel's name without return type, template arguments and parameters. */
export function kernelLabel(name: string): string {
  let label = ''
  let depth = 0
  const plain = name.replaceAll('(anonymous namespace)::', '').replace(/^void /, '')
  for (const character of plain) {
    if (character === '<') depth++
    else if (character === '>') depth = Math.max(0, depth - 1)
    else if (depth > 0) continue
    else if (character === '(') break
    else label += character
  }
  label = label.trim()
  if (label === '') label = plain.trim() || '(no name)'
  return label.length > LONGEST ? `${label.slice(0, LONGEST - 1)}…` : label
}

/**
 * A node of a prefix tree of chains. The children of a chain are the chains that are longer by one label. With a prefix
 * tree, a lookup need not build a text from the labels.
 */
interface Prefix {
  readonly longer: Map<number, Prefix>
  chain?: readonly number[]
}

/** Interns labels as numbers, shared by all ranks of a timeline. */
export class Labels {
  private readonly names: readonly string[]
  private readonly texts: string[] = []
  private readonly ids = new Map<string, number>()
  private readonly chains: Prefix = { longer: new Map() }
  /** Caches of labels, indexed by name id. */
  private readonly operators: (number | undefined)[] = []
  private readonly kernels: (number | undefined)[] = []
  private readonly launchesGraph: (boolean | undefined)[] = []

  constructor(names: readonly string[]) {
    this.names = names
  }

  text(label: number): string {
    return this.texts[label]
  }

  of({ events }: RankTimeline, event: number): number {
    const { name, operator, launch } = events
    const call = launch[event]
    const isNamed = operator[event] !== NONE && this.names[name[operator[event]]] !== ''
    if (isNamed && (call === NONE || !this.isGraph(name[call])))
      return (this.operators[name[operator[event]]] ??= this.intern(this.names[name[operator[event]]]))
    return this.ofKernelItself(events, event)
  }

  /** The label is the kernel's own name if the operator does not identify the work. */
  ofKernelItself({ name }: Events, event: number): number {
    return (this.kernels[name[event]] ??= this.intern(kernelLabel(this.names[name[event]])))
  }

  /** Returns the same array object for equal lists of labels, since most chains repeat. */
  chain(labels: ArrayLike<number>): readonly number[] {
    let prefix = this.chains
    for (let i = 0; i < labels.length; i++) {
      let longer = prefix.longer.get(labels[i])
      if (longer === undefined) prefix.longer.set(labels[i], (longer = { longer: new Map() }))
      prefix = longer
    }
    return (prefix.chain ??= Array.from(labels))
  }

  intern(text: string): number {
    let id = this.ids.get(text)
    if (id === undefined) {
      id = this.texts.push(text) - 1
      this.ids.set(text, id)
    }
    return id
  }

  private isGraph(name: number): boolean {
    return (this.launchesGraph[name] ??= /GraphLaunch/i.test(this.names[name]))
  }
}
