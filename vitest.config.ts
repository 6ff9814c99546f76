import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'

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
    include: ['test/**/*.test.ts', 'src/**/*.test.ts'],
    environment: 'node',
    pool: 'threads',
    maxWorkers: 2,
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
})
