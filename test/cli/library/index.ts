export * from './kernels.js'
export * from './operations.js'
export * from './world.js'
