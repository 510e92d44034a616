import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { after, before, test } from 'node:test'
import { gasFlows, measure } from './support/gas.ts'
import { startWorld, type World } from './support/world.ts'

let world: World
before(async () => {
  world = await startWorld()
})
after(() => world.chain.close())

test('each fill in a batch of 50 costs at most 60% of a single fill’s gas, or 80% between unrelated traders', async () => {
  const readme = readFileSync(new URL('../../contracts/README.md', import.meta.url), 'utf8')
  const rows = []
  for (const flow of await gasFlows(world)) rows.push(await measure(world, flow))
  for (const { flow, gasPerFill, ratio } of rows) {
    // Fills between unrelated traders share only the fixed cost of the transaction, because most of their gas is for
    // each trader's own storage. The same holds for mints.
    const isOwn = flow.includes('strangers') || flow.includes('mints')
    assert.ok(ratio <= (isOwn ? 0.8 : 0.6), `${flow}: ${ratio.toFixed(3)}`)
    const line = readme.split('\n').find((text) => text.startsWith(`| ${flow} |`))
    assert.ok(line, `contracts/README.md has no row for ${flow}`)
    const told = line
      .split('|')
      .slice(2, 5)
      .map((text) => Number(text.replaceAll(/[ ,]/g, '')))
    gasPerFill.forEach((gas, index) => {
      // The number of zero bytes in the signatures varies, and changes the gas slightly.
      assert.ok(Math.abs(gas - told[index]!) < 500, `${flow}: ${gas}, README ${told[index]}`)
    })
  }
})
