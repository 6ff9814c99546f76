/**
 * Lowers roles, which run on additional worker threads next to the leader (the thread that runs the program). The
 * leader writes the scalars that the roles need into the frame (the private memory of the program), starts the roles,
 * runs the first role itself and waits for the other roles. A role's worker takes part in one launch at a time. The
 * worker of a role begins a launch when the leader has written the launch's number into the frame, and ends the launch
 * when the leader has set the count of role starts to `noMore`.
 */
import { walk, type Block, type Node } from '../../../ir/node.ts'
import { opOf } from '../../../ir/ops/index.ts'
import { launch as launchBlock, slot as slotBlock, waitKind } from '../abi.ts'
import { add, address, codeFunction, compare, i32, mul, use, Writer } from '../build.ts'
import type { CodeFunction, Expression, Local } from '../code.ts'
import { lowerBlock } from './control.ts'
import { Lowering, valueOf, type Shared } from './context.ts'
import { valueCodeType } from './convert.ts'
import { header } from './frame.ts'
import { isFragment } from './plan.ts'
import { isStanding, scalar } from './scalars.ts'
import { leaveIfStopped } from './sync.ts'
import { view } from './views.ts'

/**
 * A number that is larger than any real start count. The leader writes this count to show that no further start of
 * roles follows in this launch.
 */
const noMore = 1 << 30

/** The code of one role of one `roles` node. */
export interface RoleCode {
  readonly which: number
  readonly role: number
  readonly code: CodeFunction
}

const rolesNodes = (shared: Shared): Node[] =>
  [...walk(shared.ir.body)].filter((node) => opOf(node).flow === 'warps')
export const workersOf = (shared: Shared): number =>
  Math.max(1, ...rolesNodes(shared).map((node) => node.blocks.length))

const collected = new WeakMap<Shared, RoleCode[]>()
function codesOf(shared: Shared): RoleCode[] {
  let codes = collected.get(shared)
  if (!codes) collected.set(shared, (codes = []))
  return codes
}

const word = (frame: Local, offset: number): Expression => address(frame, 0, 1, offset)

/** The nodes outside a block that the code of the block needs, in program order. */
function capturedBy(shared: Shared, block: Block): Node[] {
  const inside = new Set<Node>(block.params)
  for (const node of walk(block)) {
    inside.add(node)
    for (const inner of node.blocks) for (const param of inner.params) inside.add(param)
  }
  const wanted = new Set<Node>()
  const want = (node: Node): void => {
    if (inside.has(node) || wanted.has(node)) return
    wanted.add(node)
    // A role recomputes a view from its inputs. Scalars that a role needs are passed through the program's private
    // memory.
    if (node.type.kind !== 'value') node.inputs.forEach(want)
  }
  for (const node of walk(block)) node.inputs.forEach(want)
  return inOrder(shared.ir.body).filter((node) => wanted.has(node))
}

/** All nodes of a block and of the blocks inside it, with their parameters, in program order. */
const inOrder = ({ params, nodes }: Block): Node[] => [
  ...params,
  ...nodes.flatMap((node) => [...node.blocks.flatMap(inOrder), node]),
]

const isHandedOver = (l: Lowering, node: Node): boolean =>
  node.type.kind === 'value' && !isFragment(node) && !isStanding(l, node)

export function lowerRoles(l: Lowering, node: Node): void {
  const { writer, ambient, shared } = l
  const { frame, memory, slot } = ambient
  const codes = codesOf(shared)
  const which = rolesNodes(shared).indexOf(node)
  const workers = workersOf(shared)
  shared.frame.scope(() => {
    const captured = new Set(node.blocks.slice(1).flatMap((block) => capturedBy(shared, block)))
    for (const one of captured)
      if (isHandedOver(l, one)) {
        const value = scalar(l, one)
        const offset = shared.frame.take(8)
        shared.published.set(one, offset)
        writer.store(
          value.type === 'i64' ? 'i64' : value.type === 'f32' ? 'f32' : 'i32',
          frame,
          value,
          offset,
        )
      }
    writer.store('i32', frame, i32(which), header.which)
    writer.store('i32', frame, ambient.program, header.program)
    writer.store('i32', frame, i32(0), header.meeting)
    const before = writer.atomic('add', word(frame, header.go), i32(1), 'seqCst')
    l.call(shared.runtime.wakeSleepers, memory, word(frame, header.go))
    node.blocks
      .slice(1)
      .forEach((block, i) =>
        codes.push({ which, role: i + 1, code: roleFunction(l, node, block, `role_${which}_${i + 1}`) }),
      )
    const outer = l.roles
    l.roles = node.blocks.length
    shared.frame.apart(() => lowerBlock(l, node.blocks[0]))
    l.roles = outer
    const wanted = mul(add(before, i32(1)), i32(workers - 1))
    const site = i32(shared.sites.number(node))
    const done = word(frame, header.done)
    leaveIfStopped(
      l,
      use(l.call(shared.runtime.waitWord, memory, done, wanted, slot, site, i32(waitKind.roles))!),
    )
  })
}

function roleFunction(leader: Lowering, node: Node, block: Block, name: string): CodeFunction {
  const { shared } = leader
  return codeFunction(
    name,
    [
      ['launch', 'ptr'],
      ['frame', 'ptr'],
      ['slot', 'ptr'],
      ['memory', 'ptr'],
      ['program', 'i32'],
    ],
    (writer, launch, frame, slot, memory, program) => {
      const l = new Lowering(shared, writer, { launch, frame, slot, memory, program })
      l.roles = node.blocks.length
      l.capture = (one) => {
        const offset = shared.published.get(one)
        if (offset === undefined) throw new Error(`${one.op} was not passed to a role`)
        const type = valueCodeType(valueOf(one).dtype, false)
        const kind = type === 'i64' ? 'i64' : type === 'f32' ? 'f32' : 'i32'
        return l.once(`handed ${offset}`, (prologue) => prologue.load('handed', type, kind, frame, offset))
      }
      for (const one of capturedBy(shared, block)) {
        if (one.type.kind !== 'value') view(l, one)
        else if (!isFragment(one)) scalar(l, one)
      }
      shared.frame.apart(() => lowerBlock(l, block))
      writer.return(i32(0))
      writer.statements.unshift(...l.prologue)
    },
    { result: 'i32', hot: true },
  )
}

/** The entry function of the workers that run role number `role`. */
export function roleEntry(shared: Shared, role: number): CodeFunction {
  const { runtime } = shared
  return codeFunction(
    `role_${role}`,
    [
      ['launch', 'ptr'],
      ['frame', 'ptr'],
      ['slot', 'ptr'],
    ],
    (writer, launch, frame, slot) => {
      const memory = memoryOf(writer, frame)
      const wait = (offset: number, wanted: Expression): void => {
        const stopped = writer.call(
          runtime.waitWord,
          memory,
          word(frame, offset),
          wanted,
          slot,
          i32(0),
          i32(waitKind.roles),
        )
        writer.if(compare('ne', stopped!, i32(0)), () => writer.return(i32(-1)))
      }
      const done = (): void => {
        writer.emit({
          kind: 'atomic',
          name: 'add',
          at: word(frame, header.done),
          value: i32(1),
          order: 'seqCst',
        })
        writer.call(runtime.wakeSleepers, memory, word(frame, header.done))
      }
      const sequence = writer.load('sequence', 'i32', 'i32', launch, launchBlock.sequence)
      wait(header.sequence, use(sequence))
      const start = writer.let('start', i32(1))
      writer.loop(() => {
        wait(header.go, use(start))
        const go = writer.atomicLoad('go', 'i32', word(frame, header.go), 'acquire')
        writer.if(compare('ge', go, i32(noMore)), () => {
          done()
          writer.return(i32(0))
        })
        const program = writer.load('program', 'i32', 'i32', frame, header.program)
        const which = writer.load('which', 'i32', 'i32', frame, header.which)
        writer.store('i32', slot, program, slotBlock.program)
        for (const one of codesOf(shared))
          if (one.role === role)
            writer.if(compare('eq', which, i32(one.which)), () => {
              const stopped = writer.call(one.code, launch, frame, slot, memory, program)
              writer.if(compare('ne', stopped!, i32(0)), () => writer.return(i32(-1)))
            })
        done()
        writer.set(start, add(start, i32(1)))
      })
      writer.return(i32(0))
    },
    { result: 'i32' },
  )
}

/** Returns the start of the shared memory, as a pointer loaded from 64 zero bits. */
export function memoryOf(writer: Writer, frame: Local): Local {
  writer.store('i64', frame, { kind: 'const', type: 'i64', value: 0 }, header.memory)
  return writer.loadPointer('memory', frame, header.memory)
}

/** The leader's code for the start and the end of a launch with roles. */
export function openRoles(shared: Shared, writer: Writer, launch: Local, frame: Local, memory: Local): void {
  if (workersOf(shared) === 1) return
  for (const offset of [header.go, header.done]) writer.atomicStore(word(frame, offset), i32(0), 'relaxed')
  const sequence = writer.load('sequence', 'i32', 'i32', launch, launchBlock.sequence)
  writer.atomicStore(word(frame, header.sequence), sequence, 'seqCst')
  writer.call(shared.runtime.wakeSleepers, memory, word(frame, header.sequence))
}

export function closeRoles(shared: Shared, writer: Writer, frame: Local, memory: Local, slot: Local): void {
  const workers = workersOf(shared)
  if (workers === 1) return
  const starts = writer.atomic('exchange', word(frame, header.go), i32(noMore), 'seqCst')
  writer.call(shared.runtime.wakeSleepers, memory, word(frame, header.go))
  const wanted = mul(add(starts, i32(1)), i32(workers - 1))
  const stopped = writer.call(
    shared.runtime.waitWord,
    memory,
    word(frame, header.done),
    wanted,
    slot,
    i32(0),
    i32(waitKind.roles),
  )
  writer.if(compare('ne', stopped!, i32(0)), () => writer.return(i32(-1)))
  for (const offset of [header.go, header.done, header.sequence])
    writer.atomicStore(word(frame, offset), i32(0), 'relaxed')
}
