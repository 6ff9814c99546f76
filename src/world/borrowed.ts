/**
 * Lends a world to a host program. Each program gets an object of its own, so that nothing that it keeps by world, such
 * as allocations in a cache, outlives it. When the world is given back, what the program has allocated is freed.
 */
import { HostWorld } from './host.ts'
import { WorldError, type World } from './world.ts'

export function borrowed(world: World): { readonly world: World; readonly giveBack: () => void } {
  if (!(world instanceof HostWorld)) throw new WorldError('only a whole world is lent, not a group')
  return { world: standIn(world, new Map()), giveBack: world.lend() }
}

/** Returns another object for the same world. Its groups have other objects, too: `known` holds them. */
function standIn(world: World, known: Map<World, World>): World {
  const group: World['group'] = (members) => {
    const own = world.group(members)
    const made = known.get(own) ?? standIn(own, known)
    known.set(own, made)
    return made
  }
  return new Proxy(world, {
    get(target, name) {
      if (name === 'group') return group
      const value: unknown = Reflect.get(target, name, target)
      return typeof value === 'function' ? (value.bind(target) as unknown) : value
    },
  })
}
