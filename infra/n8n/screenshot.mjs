// Makes workflow.png: the workflow in n8n's editor. Start n8n in the root of the
// project, then run this in an empty folder outside it:
//
//	go run ./infra/e2e -serve
//	npm install playwright-core && node PROJECT/infra/n8n/screenshot.mjs http://127.0.0.1:PORT workflow.png
//
// It needs Chromium (CHROMIUM, or /usr/bin/chromium).
import { createRequire } from 'node:module';

const { chromium } = createRequire(`${process.cwd()}/`)('playwright-core');
const [url, picture, workflow = 'outboxEvents0001'] = process.argv.slice(2);

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--no-first-run'],
});
const context = await browser.newContext({ viewport: { width: 1500, height: 800 } });
context.setDefaultTimeout(120_000);
await context.request.post(`${url}/rest/login`, {
  data: { emailOrLdapLoginId: 'owner@example.com', password: 'Outbox-events-1' },
});
const page = await context.newPage();
await page.goto(`${url}/workflow/${workflow}`);
await page.getByText('Acknowledge').first().waitFor();
await page.waitForTimeout(5_000); // the checklist that it opens by itself
await page.keyboard.press('Escape');
await page.addStyleTag({
  content: '[data-test-id="node-creator-plus-button"], [data-test-id="canvas-handle-plus"] { visibility: hidden }',
});
await page.keyboard.press('1'); // zoom to fit
await page.waitForTimeout(2_000);
await page.screenshot({ path: picture, clip: { x: 42, y: 0, width: 1458, height: 670 } });
await browser.close();
