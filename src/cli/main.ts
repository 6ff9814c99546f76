#!/usr/bin/env node
console.log('arke')
