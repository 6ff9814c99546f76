/** Wraps a world so that what a host program has allocated can be freed when the program has ended. */
import type { PackedTensor, SymmetricFlags, SymmetricTensor, World } from './world.ts'

type Allocation = SymmetricTensor | SymmetricFlags | PackedTensor

const allocating = ['empty', 'full', 'zeros', 'arange', 'rand', 'randn', 'from', 'flags'] as const
const isAllocating = (name: string | symbol): boolean =>
  (allocating as readonly (string | symbol)[]).includes(name)

/**
 * Returns the same world, and a function that frees what was allocated through it and not freed yet. Allocations of
 * single ranks (`World.on`) are left alone.
 */
export function borrowed(world: World): { readonly world: World; readonly giveBack: () => void } {
  const held = new Set<Allocation>()
  const free: World['free'] = (allocation) => {
    held.delete(allocation)
    world.free(allocation)
  }
  const noted = (value: Allocation): Allocation => {
    held.add(value)
    return value
  }
  const pack: World['pack'] = async (tensor) => {
    const packed = await world.pack(tensor)
    // A target without a special layout returns the tensor itself as the source, which is held already.
    if (packed.source !== tensor) held.add(packed)
    return packed
  }
  const wrapped = new Proxy(world, {
    get(target, name) {
      if (name === 'free') return free
      if (name === 'pack') return pack
      const value: unknown = Reflect.get(target, name, target)
      if (typeof value !== 'function') return value
      const call = value.bind(target) as (...args: readonly unknown[]) => unknown
      if (isAllocating(name)) return (...args: readonly unknown[]) => noted(call(...args) as Allocation)
      return call
    },
  })
  return {
    world: wrapped,
    giveBack() {
      for (const allocation of held) world.free(allocation)
      held.clear()
    },
  }
}
