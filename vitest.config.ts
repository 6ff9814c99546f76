import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'

/**
 * Tests that replace modules or functions, or use up the threads that worlds share, so that other test files must not
 * run in the same thread.
 */
const alone = ['test/ir/derived.test.ts', 'test/targets/cpu/worldStops.test.ts']

export default defineConfig({
  resolve: {
    // Examples import the package by its name; in this repository that is the source, not a built copy.
    alias: [
      { find: /^arke$/, replacement: fileURLToPath(new URL('./src/index.ts', import.meta.url)) },
      { find: /^arke\/ops$/, replacement: fileURLToPath(new URL('./src/ops/index.ts', import.meta.url)) },
      { find: /^arke\/eslint$/, replacement: fileURLToPath(new URL('./src/lint/index.ts', import.meta.url)) },
    ],
  },
  test: {
    environment: 'node',
    globalSetup: 'test/cli/installFolder.ts',
    setupFiles: 'test/seed.ts',
    // Threads of one process contend for its memory map, which costs a fifth of the time.
    pool: 'forks',
    maxWorkers: 2,
    // Tests allocate many short-lived objects: with a small young generation, collecting them takes a sixth of the time.
    execArgv: ['--max-semi-space-size=64'],
    testTimeout: 60_000,
    tags: [{ name: 'long', description: 'run by `npm run test:long`, not by `npm test`', timeout: 300_000 }],
    hookTimeout: 60_000,
    projects: [
      {
        extends: true,
        test: {
          name: 'together',
          // `include` also names excluded files, because an `exclude` here would replace that of the command line.
          include: ['test/**/*.test.ts', 'src/**/*.test.ts', ...alone.map((file) => `!${file}`)],
          // Test files on one thread share modules, because loading the modules anew takes a quarter of the time.
          isolate: false,
        },
      },
      { extends: true, test: { name: 'alone', include: alone } },
    ],
  },
})
