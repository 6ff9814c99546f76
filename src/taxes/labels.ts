/**
 * What to call device work in a chain: the operator that it belongs to, else the kernel's name without its arguments.
 * The kernels of a CUDA graph belong to whatever launched the graph, which says nothing of them, so they have their own.
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

/** A beginning of chains, with those that are longer by one label; found without a text for each chain that comes. */
interface Prefix {
  readonly longer: Map<number, Prefix>
  chain?: readonly number[]
}

/** Labels as numbers, the same for all ranks of a timeline. */
export class Labels {
  private readonly names: readonly string[]
  private readonly texts: string[] = []
  private readonly ids = new Map<string, number>()
  private readonly chains: Prefix = { longer: new Map() }
  /** By name. */
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

  /** By the kernel's name in any case, for work that the operator does not tell apart. */
  ofKernelItself({ name }: Events, event: number): number {
    return (this.kernels[name[event]] ??= this.intern(kernelLabel(this.names[name[event]])))
  }

  /** The same array for the same labels: chains come again and again. */
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
