/**
 * Lends a world to a host program. Each host program gets its own object for the same world, so that no cache that is
 * keyed by the world outlives the program. When the host program ends, the memory that it has allocated is freed.
 */
import { HostWorld } from './host.ts'
import { WorldError, type World } from './world.ts'

export function borrowed(world: World): { readonly world: World; readonly giveBack: () => void } {
  if (!(world instanceof HostWorld)) throw new WorldError('only a whole world is lent, not a group')
  return { world: standIn(world, new Map()), giveBack: world.lend() }
}

/**
 * Returns another JavaScript object for the same world. Each group of the lent world gets a new object, which the map
 * `known` holds.
 */
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
