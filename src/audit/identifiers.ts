/** A column with one id per event, or NaN for an event without an id. Nearly all ids fit into 4 bytes each. */
import { Column, uint32 } from '../timeline/columns.ts'

const ABSENT = 0xffff_ffff
const ELSEWHERE = 0xffff_fffe

export class Identifiers {
  private readonly small = new Column(uint32)
  /** Holds the ids that are large, negative or not integers, keyed by event. */
  private readonly others = new Map<number, number>()

  push(id: number): void {
    if (Number.isNaN(id)) this.small.push(ABSENT)
    else if (id >= 0 && id < ELSEWHERE && Number.isInteger(id)) this.small.push(id)
    else {
      this.others.set(this.small.length, id)
      this.small.push(ELSEWHERE)
    }
  }

  clear(): void {
    this.small.clear()
    this.others.clear()
  }

  get(event: number): number {
    const id = this.small.get(event)
    if (id < ELSEWHERE) return id
    return id === ABSENT ? NaN : (this.others.get(event) ?? NaN)
  }
}
