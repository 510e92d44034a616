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

test('a batch of 50 fills saves at least 40% gas per fill (unrelated traders or mints: 20%)', async () => {
  const readme = readFileSync(new URL('../../contracts/README.md', import.meta.url), 'utf8')
  const rows = []
  for (const flow of await gasFlows(world)) rows.push(await measure(world, flow))
  for (const { flow, gasPerFill, ratio } of rows) {
    // Most gas of a fill between unrelated traders pays for each trader's storage, which a batch cannot share. So a
    // batch saves only the fixed cost of the transaction. The same holds for mints.
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
