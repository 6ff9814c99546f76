/**
 * Writes the emitted text or bytes of every shipped kernel for every target, so that two commits can be compared:
 *
 *   npx tsx scripts/emitted.ts OUT_DIR        then, at the other commit: npx tsx scripts/emitted.ts OTHER_DIR
 *   diff -r OUT_DIR OTHER_DIR
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { allEmitted } from '../test/golden/emitted.ts'

const [folder, ...rest] = process.argv.slice(2)
if (!folder || rest.length > 0 || folder.startsWith('-')) {
  console.error('usage: npx tsx scripts/emitted.ts OUT_DIR')
  process.exit(2)
}
process.setSourceMapsEnabled(true)
let count = 0
for await (const { target, kernel, facts, contents } of allEmitted())
  for (const [ending, content] of Object.entries(contents)) {
    const path = join(folder, target, kernel, `${facts}.${ending}`)
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, content)
    count++
  }
console.log(`${count} files were written to ${folder}`)
