/**
 * Inserts the ops at the start of a program (`ir/ops/start.ts`): which barriers are initialised, how a launch is ordered
 * with the launches before and after it, which flag epochs are read and advanced, and whether and how the threads of the
 * program synchronise before the first op of the kernel. The renderers of the inserted ops make no decisions.
 */
import type { Attributes, Block, Node } from '../../../ir/node.ts'
import { declaresBarriers, paramName } from '../../../ir/ops/index.ts'
import { hardwareArrivals } from './decide.ts'
import type { Ordering } from './ordering.ts'
import type { Epoch } from './start.ts'

export function emitStart(ordering: Ordering, body: Block): void {
  const { plans, copier } = ordering
  const { early, clerk, start, isOpenEnded, record, roles } = plans
  const emit = (op: Parameters<typeof copier.emit>[0], what: string, ...rest: Rest): Node => {
    ordering.say(`at the start, ${what}`, {})
    const [inputs = [], attributes] = rest
    return copier.emit(op, inputs, attributes)
  }

  const barriers = body.nodes.filter(declaresBarriers)
  if (barriers.length > 0)
    emit(
      'start.barriers',
      'one thread initialises the barriers',
      barriers.map((node) => copier.get(node)),
      { arrivals: barriers.map((node) => hardwareArrivals(node, plans)) },
    )

  const goesOn = early ? `, except the ${early.group.name} if no running launch writes its sources` : ''
  const ofEarly = early && { early: early.group.name }
  emit('start.after', `threads wait for the previous launch${goesOn}`, [], {
    ...ofEarly,
    ...(early && { reads: early.reads }),
  })
  if (!isOpenEnded) emit('start.next', 'the next launch may start')

  // A program of a cluster must not end before the other programs, which may still copy into its shared memory. A
  // program of a cluster therefore does not end at its start when the launch is aborted. Each wait of the program ends
  // when the wait finds the abort word set.
  const isOfCluster = body.nodes.some(({ op }) => op === 'cluster.meet')
  const arriving = early?.threads ?? 0
  const aborted =
    start.waitLines.length > 0 && !isOfCluster
      ? emit('start.aborted', 'one thread reads the abort word', [], { thread: arriving })
      : undefined

  const flagsOf = (epochs: readonly Epoch[]): Node[] =>
    epochs.map(({ flags }) => copier.get(body.params.find((param) => paramName(param) === flags)!))
  const sidesOf = (epochs: readonly Epoch[]): string[] => epochs.map(({ side }) => side)
  const { epochs, advanced } = start
  if (epochs.length > 0)
    emit('start.epochs', 'threads read epochs', flagsOf(epochs), { sides: sidesOf(epochs) })

  // The log of a program is in shared memory, which one thread initialises.
  const isLogOfRoles = record !== undefined && roles.groups.size > 0
  const why = [
    ...(aborted ? ['because the program ends if the launch is aborted'] : []),
    ...(barriers.length > 0 ? ['because the barriers have been initialised'] : []),
    ...(advanced.length > 0 ? ['because the epochs that threads read are advanced'] : []),
    ...(isLogOfRoles ? ['because roles write the log that one thread initialises'] : []),
  ]
  if (why.length > 0) {
    const isWaiting = advanced.length > 0 && clerk < arriving
    emit(
      'start.meet',
      `the threads of the program synchronise, ${why.join(', and ')}`,
      aborted ? [aborted] : [],
      { ...ofEarly, ...(early && { arriving }), ...(isWaiting && { waiting: clerk }) },
    )
  }
  if (advanced.length > 0)
    emit('start.advance', 'the last program advances epochs', flagsOf(advanced), {
      sides: sidesOf(advanced),
      thread: clerk,
    })
}

type Rest = readonly [inputs?: readonly Node[], attributes?: Attributes]
