/** Reads, writes and copies the elements of a view one by one. A mask selects the elements that are accessed. */
import { OUTSIDE, type Places } from './access.ts'
import type { Agent } from './agent.ts'
import { checkOverlap, checkWrites } from './lanes.ts'
import type { Machine } from './machine.ts'
import type { Accessor } from './memory.ts'

export const optional = (agent: Agent, register: number | undefined): unknown =>
  register === undefined ? undefined : agent.registers[register]
export const taking = (mask: unknown, i: number): boolean =>
  mask === undefined || (typeof mask === 'number' ? mask !== 0 : (mask as Float64Array)[i] !== 0)
export const element = (data: unknown, i: number): number =>
  typeof data === 'number' ? data : (data as Float64Array)[i]

export function readPlaces(
  agent: Agent,
  machine: Machine,
  by: Accessor,
  register: number,
  mask?: unknown,
  other?: unknown,
): Float64Array {
  const places = agent.registers[register] as Places
  const { buffer, index } = places
  const out = new Float64Array(index.length)
  for (let i = 0; i < out.length; i++) {
    const at = index[i]
    if (mask !== undefined && !taking(mask, i)) out[i] = other === undefined ? 0 : element(other, i)
    else if (at >= 0) out[i] = machine.memory.read(by, buffer, at)
    else if (at === OUTSIDE) machine.memory.outside(by, places, 'reads')
  }
  return out
}

export function writePlaces(
  by: Accessor,
  agent: Agent,
  machine: Machine,
  places: Places,
  data: unknown,
  mask: unknown,
): void {
  const { buffer, index } = places
  agent.noteEffect()
  if (places.mayRepeat)
    checkWrites(
      machine.memory,
      by,
      places,
      (i) => taking(mask, i),
      (i) => element(data, i),
    )
  for (let i = 0; i < index.length; i++) {
    const at = index[i]
    if (mask !== undefined && !taking(mask, i)) continue
    if (at >= 0) machine.memory.write(by, buffer, at, element(data, i))
    else if (at === OUTSIDE) machine.memory.outside(by, places, 'writes')
  }
}

/**
 * Copies a tile element by element. Where the source tile is outside its tensor, a shared target receives zeros, and a
 * target in global memory remains unchanged.
 */
export function copyPlaces(
  by: Accessor,
  agent: Agent,
  { memory }: Machine,
  from: Places,
  to: Places,
  mask: unknown,
  writer = by,
): void {
  agent.noteEffect()
  if (from.buffer === to.buffer) checkOverlap(memory, by, from, to, (i) => taking(mask, i))
  // A lane whose source element is outside the tensor writes 0 to a shared target, and nothing to global memory.
  if (to.mayRepeat)
    checkWrites(
      memory,
      writer,
      to,
      (i) => taking(mask, i) && (from.index[i] >= 0 || to.buffer.rank < 0),
      (i) => (from.index[i] >= 0 ? from.buffer.data[from.index[i]] : 0),
    )
  for (let i = 0; i < to.index.length; i++) {
    if (mask !== undefined && !taking(mask, i)) continue
    const source = from.index[i]
    const target = to.index[i]
    if (source === OUTSIDE) memory.outside(by, from, 'reads')
    else if (target === OUTSIDE) memory.outside(writer, to, 'writes')
    else if (target >= 0 && source >= 0)
      memory.write(writer, to.buffer, target, memory.read(by, from.buffer, source))
    else if (target >= 0 && to.buffer.rank < 0) memory.write(writer, to.buffer, target, 0)
  }
}
