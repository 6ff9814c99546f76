/**
 * Defines compiled code: one list of instructions with jumps, whose values are stored in numbered registers. An
 * instruction with `sync` is a scheduling point: the checking machine runs an agent from one scheduling point to the
 * next.
 */
import type { KernelIR, Node } from '../../ir/node.ts'
import type { ControlName } from '../../ir/ops/index.ts'
import type { Uses } from '../../world/uses.ts'
import type { Agent } from './agent.ts'
import type { FlagSet } from './flags.ts'
import type { Machine } from './machine.ts'

export interface Instruction {
  readonly node: Node
  /** True if the instruction is a scheduling point, before which other agents may run. */
  readonly sync: boolean
  /**
   * Returns true if the instruction can execute now. An instruction without the function `ready` can always execute.
   */
  readonly ready?: (agent: Agent, machine: Machine) => boolean
  readonly run: (agent: Agent, machine: Machine) => void
  /**
   * Returns true if the instruction commutes with everything that other agents do. A search then need not try both
   * orders of the instruction and other agents' steps.
   */
  readonly commutes?: (agent: Agent, machine: Machine) => boolean
  /** Describes the event for which a blocked agent waits. */
  readonly waiting?: (agent: Agent, machine: Machine) => string
  /** The flag set for which a blocked agent waits, if it waits for a flag. */
  readonly awaited?: (agent: Agent) => FlagSet
}

/** What the compilation of a node must know about the other nodes of the kernel. */
export interface Surroundings {
  /** True if another node uses the node's result. */
  readonly isUsed: boolean
  /** True if several roles arrive at the barriers at which this node arrives. */
  readonly isContended: boolean
  /** True if ops at the start of a program initialise its barriers, as in the last stage for a GPU. */
  readonly startsExplicitly: boolean
  /**
   * The register that the surrounding `until` loop tests. The op `words.take` sets the register to 1 if a flag-in-data
   * word of the current epoch has not arrived.
   */
  readonly missing: number | undefined
}

/** Builds the instruction for a node, given the register of its result and the registers of its inputs. */
export type Maker = (node: Node, out: number, inputs: readonly number[], around: Surroundings) => Instruction

/** Ops that do not become a separate instruction: control flow, parameters, and results of control flow. */
export type Structural = ControlName | 'param' | 'result'

export interface Code extends Uses {
  readonly ir: KernelIR
  readonly instructions: readonly Instruction[]
  readonly registers: number
  readonly params: readonly { readonly register: number; readonly name: string }[]
  /** A node that requires several programs to run at the same time, or undefined if the kernel has no such node. */
  readonly needsResidency: Node | undefined
}

export const always = (): boolean => true
