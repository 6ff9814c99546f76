/** Tests the caches of a machine record, as Linux reports them; on other systems they are unknown. */
import { describe, expect, it } from 'vitest'
import { systemCaches } from '../../../src/targets/cpu/caches.ts'
import { openWorld } from '../../../src/world/open.ts'

/** The files in which Linux describes processors with the given caches. */
function files(online: string, caches: readonly (readonly string[])[]): ReadonlyMap<string, string> {
  const found = new Map([['/sys/devices/system/cpu/online', `${online}\n`]])
  caches.forEach(([level, type, size, sharing], index) => {
    const folder = `/sys/devices/system/cpu/cpu0/cache/index${index}`
    for (const [name, text] of Object.entries({ level, type, size, shared_cpu_list: sharing }))
      if (text !== '') found.set(`${folder}/${name}`, `${text}\n`)
  })
  return found
}
const cachesIn = (all: ReadonlyMap<string, string>) => systemCaches((path) => all.get(path))

describe('the caches of a computer', () => {
  it('are the data caches that Linux reports, with the last level shared', () => {
    const all = files('0-15', [
      ['1', 'Data', '48K', '0,8'],
      ['1', 'Instruction', '32K', '0,8'],
      ['2', 'Unified', '2048K', '0,8'],
      ['3', 'Unified', '260M', '0-15'],
    ])
    expect(cachesIn(all)).toEqual([
      { level: 1, bytes: 48 * 2 ** 10, isShared: false },
      { level: 2, bytes: 2 ** 21, isShared: false },
      { level: 3, bytes: 260 * 2 ** 20, isShared: true },
    ])
  })

  it('are not shared by all processors if there are several last-level caches', () => {
    const all = files('0-15', [['3', 'Unified', '32768K', '0-7']])
    expect(cachesIn(all)).toEqual([{ level: 3, bytes: 2 ** 25, isShared: false }])
  })

  it('leave out what the system does not tell', () => {
    expect(cachesIn(new Map())).toEqual([])
    const all = files('0-1', [
      ['1', 'Data', '', '0'],
      ['2', 'Unified', '1M', ''],
    ])
    expect(cachesIn(all)).toEqual([{ level: 2, bytes: 2 ** 20, isShared: false }])
  })

  it('are in the record of a world, where a launch cost and a bandwidth are unknown', async () => {
    const world = await openWorld({ target: 'wasm', ranks: 2, workers: 1, heap: 1 << 20 })
    const { machine } = world
    await world.close()
    expect(machine.launchCost).toBeUndefined()
    expect(machine.bandwidth).toBeUndefined()
    for (const { level, bytes, ranks } of machine.caches) {
      expect(level).toBeGreaterThan(0)
      expect(bytes).toBeGreaterThan(0)
      if (ranks) expect(ranks).toEqual([0, 1])
    }
  })
})
