/**
 * Determines the tensors that a rank's device work reads and writes. The tensors of a communication follow from the
 * trace's metadata, and the tensors of other device work follow from its operator.
 */
import { Kind, NONE, type RankTimeline } from '../timeline/timeline.ts'
import { communicationTraffic, type Traffic, trafficOf } from './shapes.ts'

export class RankTraffic {
  private readonly rank: RankTimeline
  private readonly names: readonly string[]
  private readonly byCall = new Map<number, Traffic | null>()
  private readonly byCommunication: (Traffic | null | undefined)[] = []

  constructor(rank: RankTimeline, names: readonly string[]) {
    this.rank = rank
    this.names = names
  }

  /** The traffic of an event, or null if it is unknown. Events with the same metadata share one object. */
  of(event: number): Traffic | null {
    const { kind, name, communication, operator, operands } = this.rank.events
    if (kind[event] === Kind.memcpy && !/DtoD|Device -> Device/.test(this.names[name[event]])) return null
    if (communication[event] !== NONE) {
      const told = (this.byCommunication[communication[event]] ??= communicationTraffic(
        this.rank.communications[communication[event]],
      ))
      if (told) return told
    }
    const call = operator[event]
    if (call === NONE || operands[call] === NONE) return null
    const key = name[call] * this.rank.operands.length + operands[call]
    let traffic = this.byCall.get(key)
    if (traffic === undefined) {
      traffic = trafficOf(this.names[name[call]], this.rank.operands[operands[call]])
      this.byCall.set(key, traffic)
    }
    return traffic
  }
}
