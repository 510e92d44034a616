/** `npm run bench -- gas`: prints the gas tables of `contracts/README.md`. */
import { gasFlows, measure, measureOperations } from './gas.ts'
import { startWorld } from './world.ts'

const world = await startWorld()
console.log('| gas per fill | batch 1 | batch 10 | batch 50 | 50 over 1 |')
console.log('|---|---|---|---|---|')
for (const flow of await gasFlows(world)) {
  const { gasPerFill, ratio } = await measure(world, flow)
  const figures = gasPerFill.map((gas) => gas.toLocaleString('en')).join(' | ')
  console.log(`| ${flow.name} | ${figures} | ${ratio.toFixed(2)} |`)
}
console.log('\n| operation | gas |\n|---|---|')
for (const [name, gas] of await measureOperations(world)) {
  console.log(`| ${name} | ${gas.toLocaleString('en')} |`)
}
await world.chain.close()
