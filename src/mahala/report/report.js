"use strict";
// Sorts tables, copies commands, and draws the charts from the JSON in #data. Names come from the user's table, so they
// are set as text only, and colours and shapes are given, not derived from values: a class may be called "red".
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const COLOURS = [
    "#4269d0",
    "#ff725c",
    "#3ca951",
    "#efb118",
    "#a463f2",
    "#6cc5b0",
    "#ff8ab7",
    "#97bbf5",
    "#9c6b4e",
    "#9498a0",
  ];
  // From small to large numbers: seen on white and on black.
  const NUMBER_COLOURS = ["#3f6fe0", "#7b7fc4", "#b07f9c", "#e07a3c", "#e2a512"];
  // Ten colours and seven shapes give 70 pairs, and neighbours differ in both.
  const SHAPES = ["circle", "square", "triangle", "diamond", "cross", "star", "wye"];
  const D3_SHAPES = {
    circle: d3.symbolCircle,
    square: d3.symbolSquare,
    triangle: d3.symbolTriangle,
    diamond: d3.symbolDiamond,
    cross: d3.symbolCross,
    star: d3.symbolStar,
    wye: d3.symbolWye,
  };
  const colour = (at) => COLOURS[at % COLOURS.length];
  const shape = (at) => SHAPES[at % SHAPES.length];
  const percent = (share) => `${(100 * share).toFixed(1)} %`;
  const tick = (share) => `${+(100 * share).toPrecision(3)} %`;
  const short = (number) => `${+number.toPrecision(4)}`;
  const count = (number) => number.toLocaleString("en");
  /** A name in lines, broken behind spaces, hyphens and underscores; of a very long one the end is left out. */
  function lines(name, width = 20, most = 3) {
    const result = [""];
    const fits = new RegExp(`.{1,${width}}`, "gsu");
    for (const part of name.split(/(?<=[\s_-])/).flatMap((word) => word.match(fits))) {
      if ((result.at(-1) + part).trimEnd().length <= width) result.push(result.pop() + part);
      else result.push(part);
    }
    const texts = result.map((line) => line.trim()).filter(Boolean);
    const end = texts.slice(most - 1).join(" ");
    return texts.length > most ? [...texts.slice(0, most - 1), `${end.slice(0, width - 1).trim()}…`] : texts;
  }
  // Lines of the longest name, its width, and the room that it needs at the left.
  const depth = (names, most = 3) => Math.max(...names.map((name) => lines(name, 20, most).length));
  const breadth = (names) => 6.4 * Math.max(...names.flatMap((name) => lines(name).map((line) => line.length)));
  const room = (names) => 14 + breadth(names);

  function element(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  }

  function swatch(item) {
    const svg = d3.create("svg").attr("viewBox", "-8 -8 16 16").attr("class", "swatch").attr("aria-hidden", "true");
    if (item.shape) svg.append("path").attr("d", d3.symbol(D3_SHAPES[item.shape], 90)()).attr("fill", item.colour);
    else
      svg
        .append("path")
        .attr("d", "M-8,0H8")
        .attr("stroke", item.colour)
        .attr("stroke-width", 4)
        .attr("stroke-dasharray", item.dashes && "3.2");
    return svg.node();
  }

  /** Buttons that switch items (name, colour, shape or dashes, on) on and off. */
  function legend(items, changed) {
    const box = element("div", { class: "legend" });
    const buttons = items.map((item) => {
      const button = element("button", { type: "button", title: item.name }, swatch(item), lines(item.name, 60, 1)[0]);
      button.addEventListener("click", () => set([item], !item.on));
      return button;
    });
    function set(chosen, on) {
      for (const item of chosen) item.on = on;
      items.forEach((item, at) => buttons[at].setAttribute("aria-pressed", item.on));
      changed();
    }
    box.append(...buttons);
    if (items.length > 5)
      for (const on of [true, false]) {
        const button = element("button", { type: "button", class: "every" }, on ? "all" : "none");
        button.addEventListener("click", () => set(items, on));
        box.append(button);
      }
    items.forEach((item, at) => buttons[at].setAttribute("aria-pressed", item.on));
    return box;
  }

  // Charts are drawn one by one, so that the page can be read and scrolled meanwhile.
  const waiting = [];
  function later(task) {
    if (waiting.push(task) === 1) setTimeout(next);
  }
  function next() {
    const task = waiting.shift();
    if (waiting.length) setTimeout(next);
    task();
  }

  /** A card whose chart is drawn for its width, and again when that changes; returns it with `redraw`. */
  function card(name, title, draw) {
    const place = element("div", { class: "plot" });
    const figure = element("figure", { class: "card" }, place);
    let drawn = 0;
    const redraw = () => {
      if (!drawn) return;
      const svg = draw(drawn);
      svg.setAttribute("role", "img");
      svg.setAttribute("aria-label", title);
      place.replaceChildren(svg);
    };
    new ResizeObserver(() => {
      const width = Math.floor(place.clientWidth);
      if (!width || width === drawn) return;
      drawn = width;
      later(redraw);
    }).observe(place);
    const saves = ["svg", "png"].map((kind) => {
      const button = element("button", { type: "button", title: `Save this chart as ${kind.toUpperCase()}` }, kind);
      button.addEventListener("click", () => save(place.firstChild, `${name}.${kind}`, kind));
      return button;
    });
    figure.prepend(element("figcaption", {}, element("span", {}, title), element("span", { class: "save" }, ...saves)));
    return { figure, redraw };
  }

  /** Save a chart as it is seen, with its colours in place of the page's variables. */
  function save(svg, name, kind) {
    const style = getComputedStyle(svg);
    const copy = svg.cloneNode(true);
    copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
    copy.style.color = style.color;
    copy.style.background = style.getPropertyValue("--card");
    copy.style.fontFamily = "system-ui, sans-serif";
    const text = new XMLSerializer()
      .serializeToString(copy)
      .replace(/var\((--[\w-]+)\)/g, (_, variable) => style.getPropertyValue(variable).trim());
    const address = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
    const download = (href) => element("a", { href, download: name }).click();
    if (kind === "svg") return download(address);
    const image = new Image();
    image.onload = () => {
      const canvas = element("canvas", { width: 2 * image.width, height: 2 * image.height });
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      download(canvas.toDataURL("image/png"));
    };
    image.src = address;
  }

  function plot(width, options) {
    return Plot.plot({
      width,
      marginTop: 24,
      marginBottom: 42,
      style: { fontSize: "12px", overflow: "visible" },
      ...options,
    });
  }

  /** A box with text at the nearest point, or where a pointer like Plot.pointerX says. */
  function tip(points, { pointer = Plot.pointer, ...options }) {
    return Plot.tip(points, pointer({ stroke: "var(--grey)", lineHeight: 1.3, lineWidth: 24, ...options }));
  }

  /** The same at any distance, and a ring around the point. */
  function tips(points, { title, ...place }) {
    const { pointer = Plot.pointer, ...ring } = { maxRadius: Infinity, ...place };
    return [
      Plot.dot(points, pointer({ ...ring, r: 6, stroke: "currentColor", strokeWidth: 1.5 })),
      tip(points, { ...ring, pointer, title }),
    ];
  }

  /** Series with their looks: plain distances are grey. */
  function painted(series) {
    const [learned, plain] = [false, true].map((kind) => series.filter((own) => own.plain === kind));
    return series.map((own) => {
      const at = (own.plain ? plain : learned).indexOf(own);
      const dashes = own.plain ? ["7 4", "2 3"][at % 2] : at < COLOURS.length ? null : "7 4";
      return { ...own, colour: own.plain ? "var(--grey)" : colour(at), shape: shape(own.plain ? at + 3 : at), dashes };
    });
  }

  const charts = {};

  charts.by_k = ({ counts, at, series, measure }) => {
    const items = painted(series).map((item) => ({ ...item, shape: null }));
    const chart = card("error-by-k", `${measure}, by number of neighbours`, (width) => {
      const shown = items.filter((item) => item.on);
      const points = shown.flatMap((item) => item.errors.map((error, j) => ({ item, k: counts[j], error })));
      return plot(width, {
        height: Math.min(380, 0.6 * width + 80),
        marginLeft: 52,
        x: {
          label: "number of neighbours →",
          ticks: Math.min(counts.length, width / 40),
          tickFormat: (k) => (k % 1 ? "" : k),
        },
        y: { label: null, grid: true, tickFormat: tick, domain: [0, 1.05 * d3.max(points, (p) => p.error) || 0.01] },
        marks: [
          ...(at === null ? [] : [Plot.ruleX([at], { strokeWidth: 8, strokeOpacity: 0.1 })]),
          ...shown.map((item) =>
            Plot.lineY(item.errors, {
              x: counts,
              y: item.errors,
              stroke: item.colour,
              strokeWidth: 2.2,
              strokeDasharray: item.dashes,
            }),
          ),
          ...tips(points, { x: "k", y: "error", title: (p) => `${p.item.name}\n${p.k} neighbours: ${percent(p.error)}` }),
        ],
      });
    });
    return [legend(items, chart.redraw), chart.figure];
  };

  charts.pairs = (panels) => {
    const items = [
      { name: "same class", key: "same", colour: COLOURS[0], on: true },
      { name: "other class", key: "other", colour: COLOURS[1], on: true },
    ];
    const cards = panels.map((panel, number) =>
      card(`distances-${number}`, panel.title, (width) => {
        const bins = panel.same.map((same, j) => ({
          same,
          other: panel.other[j],
          low: panel.edges[j],
          high: panel.edges[j + 1],
        }));
        const shown = items.filter((item) => item.on);
        const told = (bin) =>
          [
            `distance ${bin.low.toFixed(2)} to ${bin.high.toFixed(2)}`,
            ...items.map(({ key, name }) => `${name}: ${percent(bin[key])} of its pairs`),
          ].join("\n");
        return plot(width, {
          height: Math.min(260, 0.5 * width + 80),
          x: { label: "distance / median →" },
          y: { axis: null, domain: [0, Math.max(...panel.same, ...panel.other) * 1.05 || 1] },
          marks: [
            Plot.ruleY([0], { strokeOpacity: 0.3 }),
            ...shown.map(({ key, colour }) =>
              Plot.rectY(bins, { x1: "low", x2: "high", y: key, fill: colour, fillOpacity: 0.45, inset: 0 }),
            ),
            tip(bins, {
              pointer: Plot.pointerX,
              x: (bin) => (bin.low + bin.high) / 2,
              y: (bin) => Math.max(bin.same, bin.other),
              title: told,
            }),
          ],
        });
      }),
    );
    const both = element("div", { class: "pair" }, ...cards.map((one) => one.figure));
    return [legend(items, () => cards.forEach((one) => one.redraw())), both];
  };

  /** Rows of classes, of numbers, or items of answers, before and after; `answers` has both ends of each, and which hold. */
  charts.plane = ({ classes, rows, codes, values, names, answers, points, held_out, panels }) => {
    const items = classes.map((name, code) => ({ name, colour: colour(code), shape: shape(code), on: true }));
    const n = panels[0].neighbours.length / points.length;
    const where = new Map(points.map((row, at) => [row, at]));
    const number = (row) => (rows ? rows[row] : row);
    const scale = values && d3.scaleSequential(d3.extent(values), d3.interpolateRgbBasis(NUMBER_COLOURS));
    // What a row looks like, and what is said of it beside its number.
    const look = (row) =>
      codes ? items[codes[row]] : { colour: scale ? scale(values[row]) : COLOURS[0], shape: "circle", on: true };
    const label = (row) => (codes ? items[codes[row]].name : values ? short(values[row]) : "");
    const what = codes ? "class" : "number";
    const told = (row, at) =>
      [
        names && names[row],
        `row ${count(number(row))}`,
        (codes || values) && `${what} ${label(row)}`,
        held_out && (held_out[at] ? "held out" : "fitted to"),
      ]
        .filter(Boolean)
        .join("\n");
    const own = (panel, at) => panel.neighbours.slice(at * n, (at + 1) * n);
    const alike = (panel, at) => own(panel, at).filter((row) => codes[row] === codes[points[at]]).length;
    const off = (panel, at) => d3.mean(own(panel, at), (row) => Math.abs(values[row] - values[points[at]]));
    const better = (at) =>
      codes ? alike(panels[1], at) - alike(panels[0], at) : values ? off(panels[0], at) - off(panels[1], at) : -at;
    // At first the held-out row whose neighbours changed most for the better.
    let chosen = d3.maxIndex(points, (_, at) => (!held_out || held_out[at] ? better(at) : -Infinity));
    // One unit is as long in both directions, and both charts are as high as the higher one needs.
    const extents = panels.map(({ x, y }) => [d3.extent(x), d3.extent(y)]);
    const ratio = Math.min(1, Math.max(0.4, ...extents.map(([x, y]) => (y[1] - y[0]) / (x[1] - x[0] || 1))));
    const rings = [];
    const cards = panels.map((panel, side) => {
      const place = points.map((row, at) => ({ row, at, x: panel.x[at], y: panel.y[at] }));
      const [middle, level] = extents[side].map((ends) => d3.mean(ends));
      const [wide, high] = extents[side].map(([from, to]) => to - from);
      const reach = 0.54 * Math.max(wide, high / ratio) || 1;
      const lines = answers
        ? answers[0].map((left, at) => ({
            from: place[where.get(left)],
            to: place[where.get(answers[1][at])],
            holds: answers[2 + side][at],
          }))
        : [];
      const chart = card(`rows-${side}`, panel.title, (width) => {
        const shown = place.filter(({ row }) => look(row).on);
        const near = own(panel, chosen)
          .map((row) => place[where.get(row)])
          .filter(Boolean);
        const layers = d3.groups(shown, ({ row, at }) => `${!held_out || held_out[at]} ${codes ? codes[row] : ""}`);
        const svg = plot(width, {
          height: ratio * width,
          margin: 0,
          marginTop: 0,
          marginBottom: 0,
          x: { axis: null, domain: [middle - reach, middle + reach] },
          y: { axis: null, domain: [level - ratio * reach, level + ratio * reach] },
          color: { type: "identity" },
          marks: [
            Plot.link(lines, {
              x1: ({ from }) => from.x,
              y1: ({ from }) => from.y,
              x2: ({ to }) => to.x,
              y2: ({ to }) => to.y,
              stroke: ({ holds }) => (holds ? "var(--accent)" : "var(--wrong)"),
              strokeOpacity: 0.35,
            }),
            ...d3
              .sort(layers, ([key]) => (key.startsWith("0") ? 0 : 1))
              .map(([key, group]) =>
                Plot.dot(group, {
                  x: "x",
                  y: "y",
                  symbol: look(group[0].row).shape,
                  fill: ({ row }) => look(row).colour,
                  fillOpacity: key.startsWith("0") ? 0.35 : 0.95,
                  r: points.length > 800 ? 3 : 4,
                }),
              ),
            Plot.dot(near, { x: "x", y: "y", r: 6, stroke: "currentColor", strokeWidth: 1.3, className: "near" }),
            Plot.dot([place[chosen]], {
              x: "x",
              y: "y",
              r: 10,
              stroke: "currentColor",
              strokeWidth: 2.5,
              className: "chosen",
            }),
            ...tips(shown, { x: "x", y: "y", maxRadius: 40, title: ({ row, at }) => told(row, at) }),
          ],
        });
        const ring = d3.select(svg).append("circle").attr("class", "linked").attr("r", 8).attr("visibility", "hidden");
        rings[side] = (at) =>
          ring
            .attr("visibility", at === null ? "hidden" : "visible")
            .attr("cx", svg.scale("x").apply(panel.x[at ?? 0]))
            .attr("cy", svg.scale("y").apply(panel.y[at ?? 0]));
        svg.addEventListener("input", () => rings[1 - side]?.(svg.value ? svg.value.at : null));
        svg.addEventListener("click", () => svg.value && choose(svg.value.at));
        return svg;
      });
      return chart;
    });
    const redraw = () => cards.forEach((chart) => chart.redraw());
    const lists = element("div", { class: "pair neighbours" });
    const title = element("h3");
    const input = element("input", { type: "number", min: 0, inputmode: "numeric", "aria-label": "Row" });
    const answer = element("output");
    input.addEventListener("input", () => {
      const row = rows ? rows.indexOf(+input.value) : +input.value;
      if (input.value !== "" && where.has(row)) return choose(where.get(row));
      answer.textContent =
        input.value === "" ? "" : `Row ${input.value} is not among the ${count(points.length)} rows shown.`;
    });
    const tools = [element("label", {}, "Row ", input)];
    if (names) {
      const byName = element("input", { list: "names", "aria-label": "Name", class: "name" });
      byName.addEventListener("change", () => {
        const row = points.find((one) => names[one] === byName.value);
        if (row !== undefined) choose(where.get(row));
        byName.value = "";
      });
      const options = points.map((row) => element("option", { value: names[row] }));
      tools.push(element("label", {}, "Name ", byName), element("datalist", { id: "names" }, ...options));
    }
    const badge = (row) => (codes || values ? [swatch(look(row)), ` ${label(row)}`] : []);
    function choose(at) {
      chosen = at;
      answer.textContent = "";
      const row = points[at];
      input.value = number(row);
      const called = `row ${count(number(row))}${names ? ` (${names[row]})` : ""}`;
      title.replaceChildren(`The ${n === 1 ? "nearest row" : `${n} nearest rows`} of ${called}${codes || values ? ", " : ""}`, ...badge(row));
      lists.replaceChildren(
        ...panels.map((panel) => {
          const lines = own(panel, at).map((other, j) => {
            const link = element("button", { type: "button", class: "row" }, count(number(other)));
            if (where.has(other)) link.addEventListener("click", () => choose(where.get(other)));
            else link.disabled = true;
            const same = codes && codes[other] === codes[row];
            return element(
              "tr",
              { class: !codes ? "" : same ? "same" : "other" },
              element("td", {}, link),
              ...(names ? [element("td", { class: "text" }, names[other])] : []),
              ...(codes || values ? [element("td", { class: "text" }, ...badge(other))] : []),
              ...(codes ? [element("td", { class: "mark" }, same ? "✓" : "")] : []),
              element("td", { class: "n" }, panel.distances[at * n + j].toFixed(3)),
            );
          });
          const heads = ["row", names && "name", (codes || values) && what, codes && "same", "distance"];
          const head = element("tr", {}, ...heads.filter(Boolean).map((text) => element("th", {}, text)));
          const summary = codes
            ? `: ${alike(panel, at)} of ${n} are of its class`
            : values
              ? `: ${short(off(panel, at))} from its number on average`
              : "";
          const caption = element("caption", {}, `${panel.title}${summary}`);
          return element("table", {}, caption, element("thead", {}, head), element("tbody", {}, ...lines));
        }),
      );
      redraw();
    }
    choose(chosen);
    return [
      element("div", { class: "tools" }, ...tools, answer),
      ...(codes ? [legend(items, redraw)] : values ? [numberScale(scale)] : answers ? [answerLegend(answers)] : []),
      element("div", { class: "pair" }, ...cards.map((chart) => chart.figure)),
      title,
      lists,
    ];
  };

  /** The colours of numbers, from the smallest to the largest. */
  function numberScale(scale) {
    const [low, high] = scale.domain();
    const colours = d3.quantize(scale.interpolator(), 9).join(", ");
    const bar = element("span", { class: "ramp", style: `background: linear-gradient(to right, ${colours})` });
    return element("div", { class: "numbers" }, short(low), bar, short(high));
  }

  /** What the colours of answers mean, and how many hold before and after. */
  function answerLegend([, , ...holds]) {
    const shares = holds.map((each) => percent(d3.mean(each)));
    const texts = [
      ["var(--accent)", "answer that holds"],
      ["var(--wrong)", "contradicted answer"],
    ];
    return element(
      "div",
      { class: "numbers" },
      ...texts.map(([colour, text]) => element("span", {}, swatch({ colour }), ` ${text}`)),
      element("span", {}, `${shares[0]} hold before, ${shares[1]} after`),
    );
  }

  charts.predictions = ({ first, rows, truth, entries }) => {
    const options = entries.map(({ name }) => element("option", {}, name));
    const select = element("select", { "aria-label": "Predicted by" }, ...options);
    select.selectedIndex = first;
    const chart = card("predicted-and-true", "true number of each row, by the predicted one", (width) => {
      const { name, predicted } = entries[select.selectedIndex];
      const points = truth.map((value, at) => ({ row: rows[at], value, predicted: predicted[at] }));
      const ends = d3.extent([...truth, ...predicted]);
      const side = Math.min(width, 520);
      return plot(side, {
        height: side - 10,
        marginLeft: 56,
        x: { label: "predicted →", domain: ends, nice: true, ticks: side / 80, tickFormat: "~s" },
        y: { label: "↑ true", domain: ends, nice: true, grid: true, ticks: side / 60, tickFormat: "~s" },
        marks: [
          Plot.line(
            ends.map((end) => [end, end]),
            { stroke: "var(--grey)" },
          ),
          Plot.dot(points, { x: "predicted", y: "value", r: 3.5, fill: "var(--accent)", fillOpacity: 0.6 }),
          ...tips(points, {
            x: "predicted",
            y: "value",
            maxRadius: 40,
            title: (p) => `row ${count(p.row)}\n${name}: ${short(p.predicted)}\ntrue: ${short(p.value)}`,
          }),
        ],
      });
    });
    select.addEventListener("change", chart.redraw);
    return [element("div", { class: "tools" }, element("label", {}, "Predicted by ", select)), chart.figure];
  };

  charts.classes = ({ names, counts, total, entries }) => {
    const most = Math.max(...counts),
      deepest = names.length > 12 ? 2 : 3,
      height = Math.max(22, 12 * depth(names, deepest) + 4) * names.length + 60;
    const tickFormat = (at) => lines(names[at], 20, deepest).join("\n");
    const y = { type: "band", label: null, domain: d3.range(names.length), tickFormat };
    const sizes = card("classes", "rows of each class", (width) =>
      plot(width, {
        height,
        marginLeft: room(names),
        marginTop: 4,
        marginRight: 52,
        y,
        x: { label: "rows →", ticks: width / 90, tickFormat: "s" },
        marks: [
          Plot.barX(counts, {
            x: counts,
            y: d3.range(names.length),
            fill: (value) => (value === most ? "var(--accent)" : "var(--grey)"),
            insetTop: 3,
            insetBottom: 3,
          }),
          Plot.text(counts, {
            x: counts,
            y: d3.range(names.length),
            text: (value) => tick(+(value / total).toFixed(3)),
            textAnchor: "start",
            dx: 5,
          }),
          tip(counts, {
            pointer: Plot.pointerY,
            x: counts,
            y: d3.range(names.length),
            title: (value, at) => `${names[at]}\n${count(value)} rows, ${percent(value / total)}`,
          }),
        ],
        color: { type: "identity" },
      }),
    );
    const items = painted(entries);
    const errors = card("errors-by-class", "error in each class", (width) => {
      const points = items
        .filter((item) => item.on)
        .flatMap((item) => item.errors.map((error, at) => ({ item, at, error })).filter(({ error }) => error !== null));
      return plot(width, {
        height,
        marginLeft: room(names),
        marginTop: 4,
        y: { ...y, grid: true },
        x: {
          label: "misclassified →",
          tickFormat: tick,
          ticks: width / 80,
          domain: [0, 1.05 * d3.max(points, (p) => p.error) || 0.01],
        },
        marks: [
          ...items.map((item) =>
            Plot.dot(
              points.filter((point) => point.item === item),
              { x: "error", y: "at", fill: item.colour, symbol: item.shape, r: 4.5 },
            ),
          ),
          ...tips(points, {
            x: "error",
            y: "at",
            title: ({ item, at, error }) => `${item.name}\n${names[at]}: ${percent(error)} wrong`,
          }),
        ],
      });
    });
    if (!items.length) return [sizes.figure];
    return [legend(items, errors.redraw), element("div", { class: "pair" }, sizes.figure, errors.figure)];
  };

  charts.confusion = ({ names, entries, first }) => {
    const n = names.length;
    const select = element(
      "select",
      { "aria-label": "Metric" },
      ...entries.map(({ name }) => element("option", {}, name)),
    );
    select.selectedIndex = first;
    const chart = card(
      "confusion",
      "rows: the class of a test row; columns: the class that its neighbours vote for",
      (width) => {
        const { cells, totals } = entries[select.selectedIndex];
        const points = cells
          .map((value, at) => {
            const i = Math.floor(at / n);
            return { i, j: at % n, value, share: value / (totals[i] || 1) };
          })
          .filter(({ value }) => value);
        // Names above the columns are level if they are no wider than a cell, else turned, and numbers in small cells.
        const wide = breadth(names);
        const cell = (margins) => Math.min((width - margins) / n, 64);
        const level = wide + 6 <= cell(room(names) + 12);
        const turned = !level && cell(room(names) + 12 + 0.64 * wide) >= 18;
        const numbered = !level && !turned;
        const reach = turned ? wide : 0;
        const left = numbered ? Math.min(room(names), 104) + 26 : room(names);
        const [top, right] = [level ? 12 + 14 * depth(names) : 26 + 0.77 * reach, 12 + 0.64 * reach];
        const size = cell(left + right);
        // As many lines as there is room for; of very small cells not all have names.
        const every = (room) => Math.ceil(room / size);
        const most = (room) => Math.max(1, Math.floor(room / 14));
        const above = (at) => (numbered ? at + 1 : lines(names[at], 20, most(turned ? 0.77 * size : 42)).join("\n"));
        const beside = (at) =>
          numbered ? `${lines(names[at], 14, 1)[0]} · ${at + 1}` : lines(names[at], 20, most(size)).join("\n");
        return plot(left + n * size + right, {
          height: top + n * size + 8,
          marginLeft: left,
          marginTop: top,
          marginRight: right,
          marginBottom: 8,
          x: {
            type: "band",
            axis: "top",
            label: null,
            domain: d3.range(n),
            tickFormat: (at) => (at % every(numbered ? 18 : 14) ? "" : above(at)),
            tickRotate: turned ? -50 : 0,
            tickSize: 0,
          },
          y: {
            type: "band",
            label: null,
            domain: d3.range(n),
            tickFormat: (at) => (at % every(14) ? "" : beside(at)),
            tickSize: 0,
          },
          color: { type: "identity" },
          opacity: { type: "linear", domain: [0, 1], range: [0.12, 1] },
          marks: [
            Plot.cell(points, {
              x: "j",
              y: "i",
              fill: ({ i, j }) => (i === j ? "var(--accent)" : "var(--wrong)"),
              fillOpacity: ({ share }) => Math.sqrt(share),
              inset: 0.5,
              rx: 2,
            }),
            size >= 26
              ? Plot.text(points, {
                  x: "j",
                  y: "i",
                  text: ({ value }) => count(value),
                  fontSize: size < 36 ? 9 : 12,
                  fill: ({ share }) => (share > 0.4 ? "var(--card)" : "currentColor"),
                })
              : null,
            tip(points, {
              x: "j",
              y: "i",
              maxRadius: size,
              title: ({ i, j, value, share }) => {
                const what = i === j ? "recognised" : `taken for ${names[j]}`;
                return `${names[i]} ${what}\n${count(value)} of ${count(totals[i])}, ${percent(share)}`;
              },
            }),
          ],
        });
      },
    );
    select.addEventListener("change", chart.redraw);
    return [element("div", { class: "tools" }, element("label", {}, "Metric ", select)), chart.figure];
  };

  charts.spectrum = ({ numbers, shares, cumulative, head }) => {
    const points = numbers.map((number, at) => ({ number, share: shares[at], sum: cumulative[at] }));
    const told = (point) =>
      `direction ${count(point.number)}\n${tick(point.share)} of the sum\n${percent(point.sum)} up to here`;
    let log = false;
    const chart = card("spectrum", "share of each eigenvalue in their sum, and the cumulative shares", (width) => {
      const last = numbers.at(-1);
      if (log) {
        const drawn = points.filter((point) => point.share > 1e-12);
        return plot(width, {
          height: Math.min(340, 0.6 * width + 60),
          marginLeft: 60,
          x: {
            type: last > head ? "log" : "linear",
            label: "direction →",
            domain: [1, Math.max(last, 2)],
            ticks: Math.min(width / 60, last),
            tickFormat: "~s",
          },
          y: { type: "log", label: null, grid: true, ticks: 5, tickFormat: tick },
          marks: [
            Plot.lineY(drawn, { x: "number", y: "share", stroke: "var(--accent)", strokeOpacity: 0.5 }),
            Plot.dot(drawn, { x: "number", y: "share", fill: "var(--accent)", r: drawn.length > 60 ? 2 : 3.5 }),
            ...tips(drawn, { x: "number", y: "share", title: told, pointer: Plot.pointerX }),
          ],
        });
      }
      const first = points.filter((point) => point.number <= head);
      return plot(width, {
        height: Math.min(340, 0.6 * width + 60),
        marginLeft: 52,
        x: {
          label: "direction →",
          domain: [0.4, Math.min(head, last) + 0.6],
          ticks: Math.min(width / 50, last),
          tickFormat: (at) => (at % 1 ? "" : at),
        },
        y: { label: null, domain: [0, 1], grid: true, tickFormat: tick },
        marks: [
          Plot.rectY(first, {
            x1: (p) => p.number - 0.4,
            x2: (p) => p.number + 0.4,
            y: "share",
            fill: "var(--accent)",
          }),
          Plot.lineY(first, { x: "number", y: "sum", stroke: "var(--wrong)", strokeWidth: 2, marker: "dot" }),
          tip(first, { pointer: Plot.pointerX, x: "number", y: "sum", title: told }),
        ],
      });
    });
    const many = numbers.at(-1) > head;
    const choices = [many ? `the first ${head}` : "linear", many ? "all, log axes" : "log axis"].map((text, at) => {
      const button = element("button", { type: "button", "aria-pressed": at === 0 }, text);
      button.addEventListener("click", () => {
        log = at === 1;
        choices.forEach((other) => other.setAttribute("aria-pressed", other === button));
        chart.redraw();
      });
      return button;
    });
    return [element("div", { class: "legend choice" }, ...choices), chart.figure];
  };

  charts.gains = ({ values, n, measure, unit = "query" }) => {
    const units = unit === "query" ? "queries" : `${unit}s`;
    const points = values.map((value, at) => ({
      value,
      from: (at * n) / values.length,
      to: ((at + 1) * n) / values.length,
    }));
    const chart = card("gains", `gain of each ${unit} in ${measure}, largest first`, (width) =>
      plot(width, {
        height: Math.min(320, 0.5 * width + 80),
        marginLeft: 52,
        x: { label: `${units}, by gain →`, domain: [0, n], ticks: Math.min(width / 70, n) },
        y: { label: null, grid: true },
        color: { type: "identity" },
        marks: [
          Plot.rectY(points, {
            x1: "from",
            x2: "to",
            y: "value",
            fill: ({ value }) => (value < 0 ? "var(--wrong)" : "var(--accent)"),
            inset: 0,
          }),
          Plot.ruleY([0]),
          tip(points, {
            pointer: Plot.pointerX,
            x: ({ from, to }) => (from + to) / 2,
            y: "value",
            title: ({ value }) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(3)}`,
          }),
        ],
      }),
    );
    return [chart.figure];
  };

  function sortable(table) {
    const body = table.tBodies[0];
    const value = (line, at) => line.cells[at]?.dataset.value ?? "";
    for (const button of table.querySelectorAll("th button")) {
      const head = button.parentElement,
        at = head.cellIndex;
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        for (const other of table.querySelectorAll("th")) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const sign = down ? -1 : 1;
        const order = (a, b) => {
          const [x, y] = [value(a, at), value(b, at)];
          if (x === "" || y === "") return (x === "") - (y === ""); // without a value: last, in both directions
          return sign * (head.dataset.kind === "text" ? x.localeCompare(y) : x - y);
        };
        body.append(...[...body.rows].sort(order));
      });
    }
  }

  for (const place of document.querySelectorAll("[data-chart]"))
    place.append(...charts[place.dataset.chart](data[place.dataset.chart]));
  document.querySelectorAll("table.sortable").forEach(sortable);
  for (const button of document.querySelectorAll(".copy"))
    button.addEventListener("click", async () => {
      const code = button.parentElement.querySelector("code");
      try {
        await navigator.clipboard.writeText(code.textContent);
      } catch {
        // Where the clipboard is closed to scripts, the selected text can be copied by hand.
        getSelection().selectAllChildren(code);
        document.execCommand("copy");
      }
      button.textContent = "Copied";
      setTimeout(() => (button.textContent = "Copy"), 1500);
    });
})();
