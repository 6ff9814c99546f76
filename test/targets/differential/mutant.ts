/** A kernel that is recorded as another and then changed: a mistake of a kernel, or of a target that reads it wrongly. */
import { Kernel, type Meta, type Params } from '../../../src/index.ts'
import type { KernelIR, Node } from '../../../src/ir/node.ts'
import { Copier } from '../../../src/ir/rewrite.ts'
import { verify } from '../../../src/ir/verify.ts'
import type { Specialisation } from '../../../src/lang/kernel.ts'

/** What stands for a node: another one, nothing at all, or a copy of itself. */
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
