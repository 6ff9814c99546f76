/**
 * The roles plan: which threads of a program execute which block. A *group* is a run of warps that execute the same code as
 * one agent: the whole program, or a role. A role that only waits, computes scalars and starts copies needs one thread, and
 * gives its registers up to the roles that hold fragments.
 */
import { attribute, walk, type Block, type KernelIR, type Node } from '../../../ir/node.ts'
import { KernelError } from '../../../ir/site.ts'
import type { ValueType } from '../../../ir/type.ts'
import { strandsOf } from '../../../ir/passes/ahead.ts'
import type { CopyPlanner } from './copies.ts'

export interface Group {
  readonly name: string
  /** The first thread of the program in it. */
  readonly first: number
  readonly warps: number
  /** Threads that execute its code: 32 a warp, or 1. */
  readonly threads: number
  readonly solo: boolean
  /** The named barrier at which its threads meet. */
  readonly barrier: number
  /** The warps that part for it, alone or for all strands of a role together, which share a warpgroup. */
  readonly branch: Branch
  /** Threads that meet where all roles of the program do. */
  readonly together: number
  /** Registers a thread that it keeps or asks for; undefined: those it was launched with. */
  readonly registers: { readonly change: 'lower' | 'raise'; readonly count: number } | undefined
}

export interface Branch {
  readonly first: number
  readonly warps: number
}

export interface RolesPlan {
  /** Threads of a program. */
  readonly block: number
  readonly whole: Group
  /** The group of each role's block. */
  readonly groups: ReadonlyMap<Block, Group>
  /** The first barrier that no group uses. */
  readonly freeBarrier: number
}

const REGISTERS = 65536
/** What a thread that waits for flags and walks tiles needs; 40 are too few for some. */
const SOLO_REGISTERS = 56
/** As many as a thread can name, and a little less than setmaxnreg can give. */
const MOST_REGISTERS = 240

export function planRoles(ir: KernelIR, copies: CopyPlanner): RolesPlan {
  const all = [...walk(ir.body)]
  const roles = all.filter((node) => node.op === 'roles')
  const block = roles.length > 0 ? Math.max(...roles.map(totalWarps)) * 32 : 32 * defaultWarps(all)
  if (block > 1024)
    throw new KernelError(`roles: ${block / 32} warps in one program, which has at most 32`, roles[0]?.site)
  const whole: Group = {
    name: 'program',
    first: 0,
    warps: block / 32,
    threads: block,
    solo: false,
    barrier: 0,
    branch: { first: 0, warps: block / 32 },
    together: block,
    registers: undefined,
  }
  const groups = new Map<Block, Group>()
  let barrier = 1
  for (const node of roles) barrier = planGroups(node, block, copies, groups, barrier)
  return { block, whole, groups, freeBarrier: barrier }
}

const totalWarps = (roles: Node): number =>
  attribute<readonly number[]>(roles, 'warps').reduce((sum, one) => sum + one, 0)

/** Two warpgroups for products of 128 rows and more, else one. */
function defaultWarps(nodes: readonly Node[]): number {
  const rows = nodes.filter((node) => node.op === 'dot').map((node) => (node.type as ValueType).shape[0])
  return rows.length > 0 && rows.every((count) => count % 128 === 0) ? 8 : 4
}

function planGroups(
  roles: Node,
  block: number,
  copies: CopyPlanner,
  groups: Map<Block, Group>,
  firstBarrier: number,
): number {
  const names = attribute<readonly string[]>(roles, 'names')
  const warps = attribute<readonly number[]>(roles, 'warps')
  const solo = roles.blocks.map((role) => needsOneThread(role, copies))
  const branches = branchesOf(names, strandsOf(roles))
  const change = registerChange(branches, warps, solo, block)
  const isPartial = (branch: readonly number[]): number => Number(warpsOf(branch, warps) % 4 !== 0)
  // Whole warpgroups first, so that each starts at a multiple of four warps, as the matrix unit wants.
  branches.sort((a, b) => isPartial(a) - isPartial(b))
  let first = 0
  for (const roleNumbers of branches) {
    const branch = { first, warps: warpsOf(roleNumbers, warps) }
    for (const i of roleNumbers) {
      groups.set(roles.blocks[i], {
        name: names[i],
        first,
        warps: warps[i],
        threads: solo[i] ? 1 : 32 * warps[i],
        solo: solo[i],
        barrier: firstBarrier + i,
        branch,
        together: 32 * totalWarps(roles),
        registers: change?.[i],
      })
      first += 32 * warps[i]
    }
  }
  return firstBarrier + names.length
}

/** Roles one by one, and the strands of one together, by number. */
function branchesOf(names: readonly string[], strands: readonly string[]): number[][] {
  const isStrand = (i: number): boolean => strands.includes(names[i])
  const numbers = names.map((_, i) => i)
  return numbers
    .filter((i) => !isStrand(i) || i === numbers.findIndex(isStrand))
    .map((i) => (isStrand(i) ? numbers.filter(isStrand) : [i]))
}

const warpsOf = (branch: readonly number[], warps: readonly number[]): number =>
  branch.reduce((sum, i) => sum + warps[i], 0)

/** What setmaxnreg can move from the roles that start copies to those that hold fragments. */
function registerChange(
  branches: readonly (readonly number[])[],
  warps: readonly number[],
  solo: readonly boolean[],
  block: number,
): Group['registers'][] | undefined {
  const launched = Math.min(255, roundDown(REGISTERS / block))
  if (!solo.includes(true) || !solo.includes(false) || launched >= MOST_REGISTERS) return undefined
  const isMixed = (branch: readonly number[]): boolean => branch.some((i) => solo[i] !== solo[branch[0]])
  if (branches.some((branch) => warpsOf(branch, warps) % 4 !== 0 || isMixed(branch))) return undefined
  if (warps.reduce((a, b) => a + b, 0) * 32 !== block) return undefined
  const threads = (wanted: boolean): number =>
    warps.reduce((sum, count, i) => (solo[i] === wanted ? sum + 32 * count : sum), 0)
  const raised = roundDown((launched * block - SOLO_REGISTERS * threads(true)) / threads(false))
  return solo.map((one) =>
    one
      ? { change: 'lower', count: SOLO_REGISTERS }
      : { change: 'raise', count: Math.min(MOST_REGISTERS, raised) },
  )
}

const roundDown = (count: number): number => Math.floor(count / 8) * 8

function needsOneThread(role: Block, copies: CopyPlanner): boolean {
  return [...walk(role)].every((node) => {
    if (node.op === 'copy.async') return copies.ofCopy(node).how === 'tensor'
    if (node.op === 'copy' || node.op === 'dot' || node.op === 'barrier') return false
    const values = [node, ...node.inputs].map((one) => one.type)
    return values.every((type) => type.kind !== 'value' || type.shape.length === 0)
  })
}
