/**
 * Decides which threads of a program execute which role. A *group* is a range of consecutive warps that execute the
 * same code: the whole program, or one role. A role that only waits, computes scalars and starts copies needs one
 * thread. A role of one thread releases registers to the roles that hold fragments. A courier (a role that sends data
 * to other ranks) uses idle warps of the producer's warpgroup, and holds the sent data in registers.
 */
import { analysis } from '../../../ir/analysis.ts'
import { attribute, walk, type Block, type KernelIR, type Node } from '../../../ir/node.ts'
import { KernelError } from '../../../ir/site.ts'
import {
  accessesOf,
  entryOf,
  isAsync,
  opOf,
  opsWith,
  type MemoryName,
  type SyncName,
} from '../../../ir/ops/index.ts'
import type { RefType, ValueType } from '../../../ir/type.ts'
import { programsPerProcessor, type DeviceLimits, type ProgramNeeds } from '../../../world/machine.ts'
import { dutiesOf, type Duty } from '../../../ir/roles.ts'
import { roleShape } from '../roleShape.ts'
import { isFragment, isIndexed, isSplat } from './assign.ts'
import type { CopyPlanner } from './copies.ts'
import { is16Bit } from './spell.ts'

export interface Group {
  readonly name: string
  /**
   * The duty of the role (producer, consumer or courier, which sends data), or undefined for the whole program and for
   * roles that the kernel's author wrote.
   */
  readonly duty: Duty | undefined
  /** The number of the group's first thread within the program. */
  readonly first: number
  readonly warps: number
  /** The number of threads that execute the group's code: 32 per warp, or 1. */
  readonly threads: number
  readonly solo: boolean
  /** The id of the thread barrier (`bar.sync`) of the group's threads. */
  readonly barrier: number
  /** The warps that branch to this group's code. Roles that share a warpgroup have a common branch. */
  readonly branch: Branch
  /** The number of threads in all roles of the program, which a thread barrier over all roles counts. */
  readonly together: number
  /**
   * The registers per thread that the group sets with `setmaxnreg`, or undefined if the group keeps the number of
   * registers of the launch.
   */
  readonly registers: { readonly change: 'lower' | 'raise'; readonly count: number } | undefined
}

export interface Branch {
  readonly first: number
  readonly warps: number
}

export interface RolesPlan {
  /** The number of threads per program. */
  readonly block: number
  readonly whole: Group
  /** The group of each role, by the IR block of the role. */
  readonly groups: ReadonlyMap<Block, Group>
  /** The lowest thread barrier id that no group uses. */
  readonly freeBarrier: number
  /** The registers per thread at launch, with one program per multiprocessor. */
  readonly registers: number
}

/**
 * The registers per thread of a role of one thread, which waits for flags and iterates over tiles. 40 registers are too
 * few for such a role in some kernels.
 */
const SOLO_REGISTERS = 56
/**
 * The registers per thread for addresses and counters, in addition to the registers of fragments. 56 such registers are
 * too few for some kernels that record events.
 */
const BESIDE_FRAGMENTS = 72
/**
 * The most registers per thread that a group requests with `setmaxnreg`, slightly below the 255 that an instruction can
 * address.
 */
const MOST_REGISTERS = 240

export const planRoles = analysis('roles of a GPU', rolesIn)

function rolesIn(ir: KernelIR, copies: CopyPlanner, registersPerProcessor: number): RolesPlan {
  const all = [...walk(ir.body)]
  const roles = all.filter((node) => opOf(node).flow === 'warps')
  const block = roles.length > 0 ? Math.max(...roles.map(totalWarps)) * 32 : 32 * defaultWarps(all)
  const { mostWarps } = roleShape
  if (block > 32 * mostWarps)
    throw new KernelError(
      `roles: ${block / 32} warps in one program, which has at most ${mostWarps}`,
      roles[0]?.site,
    )
  const whole: Group = {
    name: 'program',
    duty: undefined,
    first: 0,
    warps: block / 32,
    threads: block,
    solo: false,
    barrier: 0,
    branch: { first: 0, warps: block / 32 },
    together: block,
    registers: undefined,
  }
  // An instruction can address at most 255 registers.
  const registers = Math.min(255, roundDown(registersPerProcessor / block))
  const groups = new Map<Block, Group>()
  let barrier = 1
  for (const node of roles) barrier = planGroups(node, { block, registers }, copies, groups, barrier)
  return { block, whole, groups, freeBarrier: barrier, registers }
}

const totalWarps = (roles: Node): number =>
  attribute<readonly number[]>(roles, 'warps').reduce((sum, one) => sum + one, 0)

/** The number of warps of a kernel without roles: 8 if the rows of all products are multiples of 128, otherwise 4. */
function defaultWarps(nodes: readonly Node[]): number {
  const rows = nodes.filter((node) => node.op === 'dot').map((node) => (node.type as ValueType).shape[0])
  return rows.length > 0 && rows.every((count) => count % 128 === 0) ? 8 : 4
}

function planGroups(
  roles: Node,
  launch: Pick<RolesPlan, 'block' | 'registers'>,
  copies: CopyPlanner,
  groups: Map<Block, Group>,
  firstBarrier: number,
): number {
  const names = attribute<readonly string[]>(roles, 'names')
  const warps = attribute<readonly number[]>(roles, 'warps')
  const solo = roles.blocks.map((role) => needsOneThread(role, copies))
  const duties = dutiesOf(roles)
  const branches = branchesOf(roles.blocks.length, duties)
  const few = branches.map((branch) => fewRegisters(branch, roles, solo))
  const change = registerChange(branches, warps, few, launch)
  const isPartial = (branch: readonly number[]): number => Number(warpsOf(branch, warps) % 4 !== 0)
  // Branches of whole warpgroups come first, so that each of them starts at a multiple of four warps, as wgmma
  // requires.
  branches.sort((a, b) => isPartial(a) - isPartial(b))
  let first = 0
  for (const roleNumbers of branches) {
    const branch = { first, warps: warpsOf(roleNumbers, warps) }
    for (const i of roleNumbers) {
      groups.set(roles.blocks[i], {
        name: names[i],
        duty: duties.at(i),
        first,
        warps: warps[i],
        threads: solo[i] ? 1 : 32 * warps[i],
        solo: solo[i],
        barrier: firstBarrier + i,
        branch,
        together: 32 * totalWarps(roles),
        registers: change?.get(roleNumbers),
      })
      first += 32 * warps[i]
    }
  }
  return firstBarrier + names.length
}

/**
 * Assigns the roles, which are given by number, to branches of the emitted code: the roles that share a warpgroup have
 * one branch together, and every other role has a branch of its own.
 */
function branchesOf(count: number, duties: readonly Duty[]): number[][] {
  // A courier (a role that sends data) runs on warps of the producer's warpgroup.
  const hasCourier = duties.some((duty) => duty === 'courier')
  const isTogether = (i: number): boolean => hasCourier && duties[i] !== 'consumer'
  const numbers = Array.from({ length: count }, (_, i) => i)
  return numbers
    .filter((i) => !isTogether(i) || i === numbers.findIndex(isTogether))
    .map((i) => (isTogether(i) ? numbers.filter(isTogether) : [i]))
}

const warpsOf = (branch: readonly number[], warps: readonly number[]): number =>
  branch.reduce((sum, i) => sum + warps[i], 0)

/**
 * Returns the number of registers per thread that suffices for a branch (one role, or the roles of one warpgroup).
 * Returns undefined if the roles of the branch hold fragments and get the registers that the other branches release.
 */
function fewRegisters(branch: readonly number[], roles: Node, solo: readonly boolean[]): number | undefined {
  const [warps, { blocks }] = [attribute<readonly number[]>(roles, 'warps'), roles]
  const isFew = (i: number): boolean => solo[i] || (branch.some((j) => solo[j]) && onlySends(blocks[i]))
  if (!branch.every(isFew)) return undefined
  const needs = branch.map((i) => (solo[i] ? SOLO_REGISTERS : sendingRegisters(blocks[i], warps[i])))
  return 8 * Math.ceil(Math.max(...needs) / 8)
}

/** True if all memory accesses of a role are loads and stores of fragments in registers. */
const onlySends = (role: Block): boolean =>
  [...walk(role)].every((node) => opOf(node).accesses.length === 0 || entryOf(goesByRegisters, node))

/** True if the memory accesses of the op need no registers besides the fragments that it loads or stores. */
const goesByRegisters: Readonly<Record<MemoryName, boolean>> = {
  load: true,
  store: true,
  copy: false,
  ...opsWith({ completes: 'at barrier' }, false),
  ...opsWith({ completes: 'at quiet' }, false),
  'put.signal': false,
  dot: false,
  'words.post': true,
  'words.take': true,
  operands: false,
  stage: true,
  'store.box': true,
  ...opsWith({ effect: 'write', elements: 'other' }, true),
}

/** The registers per thread of a role that sends data, assuming that all its fragments are live at the same time. */
function sendingRegisters(role: Block, warps: number): number {
  const fragments = [...walk(role)].filter(
    (node) =>
      node.op !== 'result' && node.op !== 'combine' && isFragment(node) && !isSplat(node) && !isIndexed(node),
  )
  return fragments.reduce((sum, { type }) => {
    const { dtype, shape } = type as ValueType
    const elements = Math.ceil(shape.reduce((a, b) => a * b, 1) / (32 * warps))
    return sum + (is16Bit(dtype) ? Math.ceil(elements / 2) : elements)
  }, BESIDE_FRAGMENTS)
}

/**
 * Returns a text that says what a courier role (a role that sends data on idle warps of the producer) would cost, or
 * undefined if it costs nothing. A courier (a role that sends data) costs nothing if two conditions hold. The first
 * condition is that the producer needs only one thread, so that its other warps are idle. The second condition is that
 * either `setmaxnreg` redistributes the registers, or the registers suffice for a second program per multiprocessor if
 * shared memory has room for one.
 */
export function costOfCourier(
  { groups, block }: RolesPlan,
  sharedBytes: number,
  device: DeviceLimits,
): string | undefined {
  const withDuty = (wanted: Duty) => [...groups].find(([, { duty }]) => duty === wanted)
  const [producer, courier] = [withDuty('producer'), withDuty('courier')]
  if (!producer?.[1].solo || !courier)
    return 'the producer needs more than one thread, so it has no idle warps'
  const [role, { registers, warps }] = courier
  const programs = (needs: Omit<ProgramNeeds, 'threads'>): number =>
    programsPerProcessor(device, { threads: block, ...needs })
  const byMemory = programs({ sharedBytes, registersPerThread: 0 })
  const byRegisters = programs({ sharedBytes: 0, registersPerThread: sendingRegisters(role, warps) })
  return registers !== undefined || byRegisters >= Math.min(2, byMemory)
    ? undefined
    : 'the registers of a courier (a role that sends data) would prevent a second resident program per multiprocessor'
}

/**
 * Returns the `setmaxnreg` change of each branch (one role, or the roles of one warpgroup). The changes move registers
 * from branches that need few registers to branches that hold fragments. Returns undefined if registers cannot be
 * moved, for example because a branch is not a whole number of warpgroups.
 */
function registerChange(
  branches: readonly (readonly number[])[],
  warps: readonly number[],
  few: readonly (number | undefined)[],
  { block, registers: launched }: Pick<RolesPlan, 'block' | 'registers'>,
): ReadonlyMap<readonly number[], Group['registers']> | undefined {
  const isAny = few.some((count) => count !== undefined) && few.includes(undefined)
  if (!isAny || launched >= MOST_REGISTERS || few.some((count) => count !== undefined && count > launched))
    return undefined
  const threads = branches.map((branch) => 32 * warpsOf(branch, warps))
  if (threads.some((count) => count % 128 !== 0) || threads.reduce((a, b) => a + b, 0) !== block)
    return undefined
  const given = threads.reduce((sum, count, i) => sum + count * (few[i] ?? 0), 0)
  const others = threads.reduce((sum, count, i) => sum + (few[i] === undefined ? count : 0), 0)
  const raised = Math.min(MOST_REGISTERS, roundDown((launched * block - given) / others))
  return new Map(
    branches.map((branch, i) => [
      branch,
      few[i] === undefined ? { change: 'raise', count: raised } : { change: 'lower', count: few[i] },
    ]),
  )
}

/** The number of registers per thread of a group. */
export const registersOf = ({ registers }: Group, plan: RolesPlan): number =>
  registers?.count ?? plan.registers

const roundDown = (count: number): number => Math.floor(count / 8) * 8

/**
 * For each synchronisation op, true if one thread of a role can execute the op on behalf of all threads of the role.
 */
const isByOneThread: Readonly<Record<SyncName, boolean>> = {
  signal: true,
  wait: true,
  reached: true,
  fence: true,
  quiet: true,
  // `bar.sync` over all roles counts every thread of every role, so one thread cannot arrive for the others.
  barrier: false,
  'barrier.arrive': true,
  'arrive.held': true,
  'barrier.wait': true,
  'advance.signal': true,
  'advance.wait': true,
  'cluster.meet': false,
  ...opsWith({ waitsFor: 'threads' }, true),
}

function needsOneThread(role: Block, copies: CopyPlanner): boolean {
  return [...walk(role)].every((node) => {
    // A role that stores through staging memory needs several threads to fill the staging memory.
    if (opOf(node).completes === 'at drain') return false
    if (isAsync(node)) return copies.ofCopy(node).how === 'tensor'
    if (opOf(node).effect === 'sync' && !entryOf(isByOneThread, node)) return false
    if (accessesOf(node).some(({ ref }) => (ref.type as RefType).shape.length > 0)) return false
    const values = [node, ...node.inputs].map((one) => one.type)
    return values.every((type) => type.kind !== 'value' || type.shape.length === 0)
  })
}
