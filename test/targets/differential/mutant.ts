/** A kernel that is recorded and then modified, to simulate a bug in a kernel or in a target. */
import { Kernel, type Meta, type Params } from '../../../src/index.ts'
import type { KernelIR, Node } from '../../../src/ir/node.ts'
import { Copier } from '../../../src/ir/rewrite.ts'
import { verify } from '../../../src/ir/verify.ts'
import type { Specialisation } from '../../../src/lang/kernel.ts'

/** Replaces a node by another node, drops it, or copies it unchanged (undefined). */
type Replace = (node: Node, copier: Copier) => Node | 'drop' | undefined
export type Mutation = (ir: KernelIR) => Replace

function mutate(ir: KernelIR, mutation: Mutation): KernelIR {
  const body = new Copier(mutation(ir)).copyBlock(ir.body)
  const mutant = { ...ir, body }
  verify(mutant)
  return mutant
}

export class Mutant<P extends Params, M extends Meta> extends Kernel<P, M> {
  readonly #original: Kernel<P, M>
  readonly #mutation: Mutation
  constructor(original: Kernel<P, M>, mutation: Mutation) {
    super(original.name, original.params, original.meta, () => undefined)
    this.#original = original
    this.#mutation = mutation
  }
  override record(specialisation: Specialisation): KernelIR {
    return mutate(this.#original.record(specialisation), this.#mutation)
  }
}
