"""Small templates, one or more for each item of the language; used by make_chat.py. Some are errors."""

VARIABLES = {
    "s": "Hello World", "u": "Größe 你好", "n": 7, "f": 2.5, "neg": -3, "yes": True, "nil": None,
    "l": [3, 1, 2], "w": ["b", "A", "c"], "d": {"b": 1, "a": 2, "items": 3}, "e": [], "sp": "  a  b\t",
    "rows": [{"name": "x", "age": 3, "tags": ["p", "q"]}, {"name": "Y", "age": 1, "tags": []},
             {"name": "z", "age": 3, "tags": ["r"]}],
}

# One template a line.
LINES = r"""
{{ 1 }} {{ -1 }} {{ 1.0 }} {{ 1e3 }} {{ 1.5e-7 }} {{ 1e16 }} {{ 123456789012345678 }} {{ 0x1F }} {{ 0b101 }} {{ 0o17 }} {{ 1_000 }}
{{ 0.1 + 0.2 }} {{ 1e15 }} {{ 1e22 }} {{ 100000.0 }} {{ 1.0e-5 }} {{ 0.0001 }} {{ -0.0 }} {{ 5e-324 }}
{{ 'a' "b" 'c' }} {{ 'it''s' }} {{ "q\"q" }} {{ 'tab\tx\\y\x41\u00e9\101\q' }}
{{ true }} {{ True }} {{ false }} {{ none }} {{ None }} {{ undefined_name }}|
{{ [1, 'a', 2.0, none, true, [], {}, (), (1,), ('x', "it's")] }}
{{ {'a': 1, "b": [1, 2], 3: none, 2.5: 'x', true: false, none: 1, (1, 2): 't'} }}
{{ {1: 'a', 1.0: 'b', true: 'c'} }} {{ {'a': 1, 'a': 2} }}
{{ 1, 2 }} {{ (1) }} {{ (1,) }} {{ () }} {{ [1, 2,] }}
{{ 7 + 2 }} {{ 7 - 9 }} {{ 7 * 2 }} {{ 7 / 2 }} {{ 7 // 2 }} {{ 7 % 3 }} {{ 2 ** 10 }} {{ 8 / 2 }}
{{ -7 // 2 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ -7.5 // 2 }} {{ -7.5 % 2 }} {{ 7.5 % -2 }} {{ 2 ** -1 }} {{ 2 ** 3 ** 2 }} {{ -2 ** 2 }}
{{ 1 / 0 }}
{{ 1 // 0 }}
{{ 1 % 0 }}
{{ 1.0 / 0 }}
{{ 0 ** -1 }}
{{ true + true }} {{ true * 3 }} {{ -true }} {{ +true }} {{ true / 2 }}
{{ 'a' + 'b' }} {{ 'ab' * 3 }} {{ 3 * 'x' }} {{ [1] + [2] }} {{ [0] * 3 }} {{ (1,) + (2,) }} {{ 'a' * -1 }}|
{{ 'a' + 1 }}
{{ [1] + (2,) }}
{{ 'a' - 'b' }}
{{ none + 1 }}
{{ 'a' ~ 1 ~ none ~ true ~ 1.5 ~ [1] ~ nope }}
{{ 1 + 2 ~ 3 }} {{ 1 ~ 2 + 3 }}
{{ 1 ~ 2 * 3 }} {{ 'x' ~ 2 * 3 ~ 'y' }}
{{ 1 < 2 }} {{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1.0 }} {{ 1 == true }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ (1,) < (1, 0) }}
{{ 1 != 2 }} {{ 2 >= 2 }} {{ 2 <= 1 }} {{ 3 > 2 > 1 }} {{ 'A' < 'a' }} {{ 'ä' > 'z' }} {{ 1 <= 1.5 }} {{ [] == () }} {{ {} == {} }}
{{ 1 < 'a' }}
{{ none < 1 }}
{{ nope < 1 }}
{{ {'a': 1, 'b': 2} == {'b': 2, 'a': 1} }} {{ {'a': 1} == {'a': 2} }} {{ none == none }} {{ nope == nope2 }} {{ nope == none }} {{ nope != 1 }}
{{ 'a' in 'abc' }} {{ 'd' not in 'abc' }} {{ 1 in [1, 2] }} {{ 'a' in d }} {{ 3 in (1, 2) }} {{ 1.0 in [1] }} {{ 'x' in nope }} {{ '' in '' }}
{{ 1 in 'abc' }}
{{ 1 in 5 }}
{{ 'a' in none }}
{{ [] in {} }}
{{ true and false }} {{ 1 and 2 }} {{ 0 or 'x' }} {{ '' or none or 5 }} {{ not 0 }} {{ not 'a' }} {{ not not 1 }} {{ 1 and nope }}| {{ not nope }}
{{ 'a' if true else 'b' }} {{ 'a' if 0 else 'b' }} {{ 'a' if false }}| {{ 'x' if 0 else 'y' if 0 else 'z' }}
{{ ('a' if false).b }}
{{ 1 if true else 1 / 0 }} {{ (1 if n > 5 else 2) + 1 }}
{{ 'a' if not e else 'b' }} {{ 'a' if d else 'b' }} {{ 'a' if 0.0 else 'b' }} {{ 'a' if '0' else 'b' }}
{{ nope }}|{{ nope.x }}
{{ nope['x'] }}
{{ nope() }}
{{ nope + 1 }}
{{ -nope }}
{{ d.nope }}|{{ d['nope'] }}|{{ d.nope.deeper }}
{{ s.nope }}|{{ n.nope }}|{{ l.nope }}|{{ none.x }}|{{ true.x }}|{{ (1.5).x }}|
{{ d.b }} {{ d['a'] }} {{ d['items'] }} {{ d.items() }} {{ d.get('b') }} {{ d.get('q') }} {{ d.get('q', 9) }}
{{ d.keys() }} {{ d.values() }} {{ d.items()|list }} {{ d.copy() }} {{ d.keys()|list }}
{{ d.get() }}
{{ d.update({'x': 1}) }}
{{ l.append(4) }}
{{ d.pop('b') }}
{{ d.pop }}|{{ l.append }}|{{ s.__class__ }}|{{ s['__class__'] }}|{{ d._x }}|
{{ s.__class__.mro() }}
{{ l[0] }} {{ l[-1] }} {{ l[5] }}| {{ l['0'] }}| {{ s[0] }} {{ s[-1] }} {{ u[2] }} {{ u[-1] }} {{ l.0 }} {{ (1, 2)[1] }} {{ l[true] }} {{ l[1.0] }}|
{{ l[1:] }} {{ l[:-1] }} {{ l[::-1] }} {{ l[::2] }} {{ l[5:] }} {{ l[-2:] }} {{ s[1:4] }} {{ s[::-1] }} {{ u[1:3] }} {{ (1, 2, 3)[1:] }} {{ s[-3:-1] }} {{ s[10:2:-3] }}
{{ l[::0] }}
{{ l['a':] }}
{{ d[1:2] }}
{{ nope[1:] }}
{{ n[0] }}|
{{ rows[0].name }} {{ rows[0]['tags'][1] }} {{ rows[-1].age }} {{ rows[9].name }}
{{ rows[0].tags[0].upper() }} {{ rows.0.name }} {{ [[1, 2], [3]].0.1 }}
{{ s.upper() }} {{ s.lower() }} {{ s.title() }} {{ 'hELLO wORLD'.capitalize() }} {{ u.upper() }} {{ "it's o'clock x2y".title() }}
[{{ sp.strip() }}] [{{ sp.lstrip() }}] [{{ sp.rstrip() }}] [{{ 'xxaxx'.strip('x') }}] [{{ 'abcab'.lstrip('ba') }}] [{{ 'abcab'.rstrip('ab') }}] [{{ '\u00a0\u2003a\x1f'.strip() }}] [{{ ' a '.strip(none) }}]
{{ 'a,b,,c'.split(',') }} {{ ' a  b '.split() }} {{ 'a,b,c'.split(',', 1) }} {{ 'a b  c '.split(none, 1) }} {{ ''.split() }} {{ ''.split(',') }} {{ 'abc'.split('bc') }} {{ 'a--b'.split(sep='--') }} {{ 'a b c'.split(maxsplit=1) }}
{{ 'a,b,c'.rsplit(',', 1) }} {{ ' a b  c '.rsplit(none, 1) }} {{ 'aaa'.rsplit('aa') }} {{ 'a b'.rsplit() }}
{{ 'abc'.split('') }}
{{ 'abc'.split(1) }}
{{ 'a\nb\r\nc\n\nd\u2028e'.splitlines() }} {{ 'a\nb\n'.splitlines(true) }} {{ ''.splitlines() }}
{{ s.startswith('Hell') }} {{ s.startswith(('x', 'H')) }} {{ s.endswith('ld') }} {{ s.endswith(()) }} {{ s.startswith('') }}
{{ s.startswith(1) }}
{{ s.replace('l', 'L') }} {{ s.replace('l', 'L', 1) }} {{ 'abc'.replace('', '-') }} {{ 'aaa'.replace('aa', 'b') }} {{ 'ab'.replace('', '.', 2) }} {{ ''.replace('', 'x') }}
{{ ', '.join(['a', 'b']) }} {{ ''.join([]) }}| {{ '-'.join('abc') }} {{ '-'.join({'a': 1, 'b': 2}) }}
{{ ','.join([1]) }}
{{ s.find('o') }} {{ s.find('zz') }} {{ s.rfind('o') }} {{ u.find('ß') }} {{ s.count('l') }} {{ 'aaa'.count('aa') }} {{ 'abc'.count('') }} {{ s.index('W') }}
{{ s.index('zz') }}
{{ 'abc'.removeprefix('a') }} {{ 'abc'.removesuffix('bc') }} {{ 'abc'.removeprefix('x') }}
{{ '12'.isdigit() }} {{ ''.isdigit() }} {{ 'aß'.isalpha() }} {{ 'a1'.isalnum() }} {{ ' \t'.isspace() }} {{ 'AB1'.isupper() }} {{ 'ab1'.islower() }} {{ '1'.islower() }} {{ 'aB'.islower() }}
{{ '{} and {}'.format(1, 'x') }} {{ '{1}{0}'.format('a', 'b') }} {{ '{x}{{}}'.format(x=none) }}
{{ '{} {}'.format(1) }}
{{ '{} {0}'.format(1) }}
{{ '%s-%d-%s' % ('a', 3, [1]) }} {{ '%s' % 'x' }} {{ '%5s|%-5s|%05d|%+d' % ('a', 'b', 42, 7) }} {{ '%.2f %f %5.1f' % (2.345, 1, 2.25) }} {{ '%%' % () }} {{ '%(a)s' % {'a': 1} }} {{ '%r' % 'x' }} {{ '%d' % 3.9 }} {{ '%.2s' % 'abc' }}
{{ '%s %s' % 'a' }}
{{ '%s' % (1, 2) }}
{{ '%d' % 'x' }}
{{ '%q' % 1 }}
{{ [1, 2, 1].count(1) }} {{ [1, 2].index(2) }} {{ (1, 2).index(1) }} {{ l.copy() }}
{{ [1].index(5) }}
{{ s.nothing() }}
{{ s() }}
{{ 1() }}
{{ range(3)|list }} {{ range(1, 4)|list }} {{ range(5, 0, -2)|list }} {{ range(3) }} {{ range(0, 9, 4) }} {{ range(0)|list }} {{ range(5)[1] }} {{ 2 in range(3) }} {{ range(3)|length }} {{ range(4)|last }}
{{ range(1, 5, 0) }}
{{ range(1000000)|length }}
{{ range('a') }}
{{ dict(a=1, b=2) }} {{ dict([('x', 1)], y=2) }} {{ dict({'a': 1}, a=3) }} {{ dict() }}
{{ dict(1) }}
{% set ns = namespace(a=1) %}{{ ns.a }}{% set ns.a = ns.a + 1 %}{% set ns.b = 'x' %}{{ ns.a }}{{ ns.b }}{{ ns.c }}|{{ ns['a'] }}
{% set ns = namespace({'k': 1}, z=2) %}{{ ns.k + ns.z }}
{% set d.x = 1 %}
{% set nope.x = 1 %}
{% set ns = namespace() %}{% set ns._x = 1 %}
{{ raise_exception('stop') }}
{% if false %}{{ raise_exception('stop') }}{% endif %}fine
{{ strftime_now('%Y-%m-%d %H:%M:%S %j %B %b %A %a %y %p %I %%') }} {{ strftime_now('%d %b %Y') }} {{ strftime_now('') }}|
{{ '  a '|trim }}| {{ 'xxaxx'|trim('x') }} {{ none|trim }} {{ 5|trim }} {{ nope|trim }}|
{{ s|length }} {{ l|count }} {{ d|length }} {{ u|length }} {{ nope|length }} {{ e|length }} {{ d.items()|length }}
{{ 5|length }}
{{ none|length }}
{{ l|first }} {{ s|first }} {{ d|first }} {{ e|first }}| {{ l|last }} {{ s|last }} {{ d|last }} {{ e|last }}| {{ d.items()|first }}
{{ 5|first }}
{{ l|map('string')|last }}
{{ l|join }} {{ l|join(', ') }} {{ rows|join('-', attribute='name') }} {{ ['a', none, 1.5]|join('/') }} {{ s|join('.') }} {{ d|join }} {{ l|join(d=':') }} {{ l|join(0) }} {{ nope|join }}|
{{ 5|join }}
{{ s|upper }} {{ s|lower }} {{ 'foo bar-baz (qux) [a] o\'neil'|title }} {{ 'aBC dE'|capitalize }} {{ none|upper }} {{ 1.5|lower }}
{{ s|replace('l', 'L') }} {{ s|replace('l', 'L', 1) }} {{ 515|replace(5, 6) }} {{ s|replace(old='o', new='0') }}
{{ s|replace('l') }}
{{ nope|default('x') }} {{ none|default('x') }} {{ ''|default('x', true) }} {{ 0|d(1, boolean=true) }} {{ nope|d }}| {{ d.q|default(none) }} {{ s|default('y') }} {{ nope.x|default('y') }}
{{ nope.a.b|default('y') }}
{{ 1|string }} {{ none|string }} {{ l|string }} {{ nope|string }}| {{ true|string + 'x' }}
{{ '42'|int }} {{ 'x'|int }} {{ 'x'|int(7) }} {{ '4.9'|int }} {{ 4.9|int }} {{ -4.9|int }} {{ 'ff'|int(base=16) }} {{ '0x1f'|int(0, 16) }} {{ ' 12 '|int }} {{ '1_0'|int }} {{ none|int }} {{ [1]|int }} {{ '1e3'|int }} {{ 'inf'|int(3) }} {{ true|int }} {{ ''|int }} {{ '+5'|int }} {{ '-07'|int }} {{ '0b11'|int(0, 0) }} {{ '--5'|int }}
{{ nope|int }}
{{ '4.5'|float }} {{ 'x'|float }} {{ 'x'|float(1.5) }} {{ 3|float }} {{ '1e3'|float }} {{ none|float }} {{ ' 1.5 '|float }} {{ 'inf'|float }} {{ '-Infinity'|float }} {{ 'nan'|float }} {{ '1_0.5'|float }} {{ true|float }} {{ '.5'|float }} {{ '5.'|float }} {{ '1e999'|float }}
{{ nope|float }}
{{ s|list }} {{ d|list }} {{ range(2)|list }} {{ nope|list }} {{ (1, 2)|list }} {{ u[:2]|list }}
{{ 5|list }}
{{ none|list }}
{% for k, v in d|items %}{{ k }}={{ v }};{% endfor %}{{ nope|items|list }} {{ {'x': 1}|items|list }}
{{ l|items|list }}
{{ d|dictsort }} {{ {'b': 1, 'A': 2, 'c': 0}|dictsort }} {{ {'b': 1, 'A': 2}|dictsort(true) }} {{ {'b': 1, 'a': 2}|dictsort(false, 'value') }} {{ {'b': 1, 'a': 2}|dictsort(reverse=true) }} {{ d|dictsort(by='value', reverse=true) }}
{{ d|dictsort(by='nope') }}
{{ l|dictsort }}
{{ w|map('upper')|list }} {{ rows|map(attribute='name')|list }} {{ rows|map(attribute='tags.0')|list }} {{ rows|map(attribute='tags.0', default='-')|join(',') }} {{ ['1', '2']|map('int')|list }} {{ l|map('string')|join }} {{ ['a']|map('replace', 'a', 'b')|list }} {{ e|map('upper')|list }} {{ nope|map('upper')|list }} {{ [l, [5]]|map('first')|list }} {{ [' a']|map('trim')|list }}
{{ l|map('nope_filter')|list }}
{{ l|map|list }}
{{ 5|map('upper')|list }}
{{ l|select('odd')|list }} {{ l|reject('odd')|list }} {{ [0, 1, '', 'a', none]|select|list }} {{ [0, 1]|reject|list }} {{ l|select('>', 1)|list }} {{ l|select('equalto', 2)|list }} {{ w|select('in', ['b', 'c'])|list }} {{ l|select('divisibleby', 3)|list }}
{{ rows|selectattr('age', 'equalto', 3)|map(attribute='name')|list }} {{ rows|rejectattr('age', 'eq', 3)|map(attribute='name')|list }} {{ rows|selectattr('tags')|map(attribute='name')|list }} {{ rows|rejectattr('tags')|list|length }} {{ rows|selectattr('nope', 'defined')|list }} {{ rows|selectattr('name', 'in', 'xz')|map(attribute='name')|join }} {{ rows|selectattr('age', 'ge', 2)|list|count }} {{ rows|selectattr('age', '!=', 3)|first }}
{{ l|select('nope_test')|list }}
{{ rows|selectattr|list }}
{{ '<b>'|safe }} {{ '<b>&\'"'|escape }} {{ '<b>'|e }} {{ '<'|e|e }} {{ '<'|safe|e }} {{ 5|escape }} {{ '<a>'|e ~ '<b>' }} {{ '<a>'|safe + '<b>' }} {{ '<b>' + '<a>'|safe }} {{ ['<a>'|safe]|join('<') }} {{ ('<a>'|safe).upper() }} {{ '<a>'|safe|upper|e }} {{ ['a'|safe] }} {{ ('<'|safe) == '<' }}
{{ 'a\nb\n\nc'|indent }}| {{ 'a\nb'|indent(2) }} {{ 'a\nb'|indent(2, true) }} {{ 'a\n\nb'|indent(1, blank=true) }} {{ 'a\nb'|indent('>>') }} {{ ''|indent }}| {{ 'a\n'|indent }}| {{ 'a\nb'|indent(width=3, first=true) }}
{{ 5|indent }}
{{ s|reverse }} {{ l|reverse|list }} {{ range(3)|reverse|list }} {{ d|reverse|list }} {{ l|reverse|join }} {{ u|reverse }} {{ nope|reverse|list }}
{{ 5|reverse }}
{{ l|sort }} {{ w|sort }} {{ w|sort(case_sensitive=true) }} {{ l|sort(true) }} {{ l|sort(reverse=true) }} {{ rows|sort(attribute='age')|map(attribute='name')|join }} {{ rows|sort(attribute='age,name')|map(attribute='name')|join }} {{ rows|sort(attribute='age', reverse=true)|map(attribute='name')|join }} {{ 'hello'|sort }} {{ d|sort }} {{ [[2, 1], [1, 5]]|sort }} {{ nope|sort }}
{{ [1, 'a']|sort }}
{{ [none, 1]|sort }}
{{ ['a', 'A', 'b']|unique|list }} {{ ['a', 'A']|unique(true)|list }} {{ [1, 1.0, 2]|unique|list }} {{ rows|unique(attribute='age')|map(attribute='name')|list }} {{ 'hello'|unique|join }}
{{ [[1]]|unique|list }}
{{ l|sum }} {{ rows|sum(attribute='age') }} {{ l|sum(start=10) }} {{ [1.5, 2]|sum }} {{ e|sum }} {{ [[1], [2]]|sum(start=[]) }}
{{ w|sum }}
{{ l|min }} {{ l|max }} {{ w|min }} {{ w|max }} {{ w|min(true) }} {{ rows|max(attribute='age') }} {{ e|min }}| {{ 'hello'|max }} {{ (rows|min(attribute='age')).name }}
{{ [1, 'a']|max }}
{{ -5|abs }} {{ neg|abs }} {{ (-2.5)|abs }} {{ true|abs }} {{ 0|abs }}
{{ 'a'|abs }}
{{ 2.5|round }} {{ 3.5|round }} {{ 2.567|round(2) }} {{ 2.1|round(method='ceil') }} {{ 2.9|round(0, 'floor') }} {{ 7|round }} {{ 1234|round(-2) }} {{ 1250|round(-2) }} {{ 1350|round(-2) }} {{ 2.675|round(2) }} {{ 2.5|round|int }} {{ 42.55|round(1, 'floor') }} {{ 7|round(1, 'ceil') }} {{ -2.5|round }} {{ 0.5|round }} {{ 1e300|round(2) }} {{ 1234.5|round(-2) }}
{{ 1|round(0, 'up') }}
{{ 'a'|round }}
{{ '%s: %d'|format('a', 5) }} {{ '%(x)s'|format(x=1) }} {{ 'plain'|format }} {{ '%s'|format(l) }}
{{ '%s'|format }}
{{ d|tojson }} {{ l|tojson }} {{ u|tojson }} {{ 'a"b\\c\n\t\x01/\x7f'|tojson }} {{ none|tojson }} {{ true|tojson }} {{ 1.5|tojson }} {{ 1e22|tojson }} {{ (1, 2)|tojson }} {{ {}|tojson }} {{ []|tojson }} {{ '<>&\''|tojson }} {{ {1: 2, none: 3, true: 4, 1.5: 5}|tojson }}
{{ rows[:1]|tojson(indent=2) }} {{ {'a': [], 'b': {}, 'c': [1]}|tojson(indent=1) }} {{ l|tojson(indent='--') }} {{ l|tojson(indent=0) }}
{{ d|tojson(sort_keys=true) }} {{ d|tojson(separators=(',', ':')) }} {{ u|tojson(ensure_ascii=true) }} {{ '😀'|tojson(true) }} {{ d|tojson(false, 1) }} {{ {'b': {'z': 1, 'y': 2}, 'a': 0}|tojson(indent=2, separators=(', ', ' = '), sort_keys=True) }}
{{ nope|tojson }}
{{ [nope]|tojson }}
{{ {(1, 2): 3}|tojson }}
{{ range(2)|tojson }}
{{ d.items()|tojson }}
{{ s|upper|lower|title|length }} {{ 'a' ~ 'b'|upper }} {{ ('a' ~ 'b')|upper }} {{ -1|abs }} {{ 1 + 2|string|length }} {{ not e|length }} {{ l|length > 2 }} {{ l|length == 3 and s|length == 11 }}
{{ s is defined }} {{ nope is defined }} {{ nope is not defined }} {{ nope is undefined }} {{ d.q is defined }} {{ rows[0].q is defined }} {{ nil is defined }}
{{ nope.x is defined }}
{{ nil is none }} {{ s is none }} {{ s is string }} {{ 1 is string }} {{ 1 is number }} {{ 1.5 is number }} {{ true is number }} {{ 1 is integer }} {{ true is integer }} {{ 1.0 is integer }} {{ 1.0 is float }} {{ 1 is float }} {{ true is boolean }} {{ 1 is boolean }} {{ true is true }} {{ 1 is true }} {{ false is false }} {{ 0 is false }} {{ none is not none }}
{{ d is mapping }} {{ l is mapping }} {{ d is iterable }} {{ l is iterable }} {{ s is iterable }} {{ 1 is iterable }} {{ none is iterable }} {{ nope is iterable }} {{ l is sequence }} {{ s is sequence }} {{ d is sequence }} {{ 1 is sequence }} {{ (1,) is sequence }} {{ range(2) is sequence }} {{ d.items() is sequence }} {{ d.items() is iterable }} {{ l|map('string') is iterable }} {{ l|map('string') is sequence }}
{{ 3 is odd }} {{ 3 is even }} {{ 9 is divisibleby(3) }} {{ 9 is divisibleby 2 }} {{ 1.5 is odd }} {{ 4.0 is even }} {{ neg is odd }}
{{ 'a' is odd }}
{{ 'Ab' is lower }} {{ 'ab' is lower }} {{ 'AB' is upper }} {{ '' is upper }} {{ 'x' is escaped }} {{ 'x'|safe is escaped }} {{ 'upper' is filter }} {{ 'odd' is test }} {{ 'nope' is filter }} {{ range is callable }} {{ s is callable }} {{ s.upper is callable }}
{{ 1 is eq 1 }} {{ 1 is equalto(1.0) }} {{ 1 is ne 2 }} {{ 1 is lt 2 }} {{ 2 is ge 2 }} {{ 'a' is in 'abc' }} {{ 1 is in [1] }} {{ 1 is not in [1] }} {{ none is sameas none }} {{ true is sameas(true) }} {{ 1 is sameas true }} {{ 1 is == 1 }}
{{ not nope is defined }} {{ 1 + 1 is number }} {{ s is string and 1 is number }} {{ s is defined and s is string or false }} {{ 'yes' if s is string else 'no' }} {{ (s is string) ~ '!' }}
{{ s is string is none }}
{{ s is nope_test }}
{{ s|nope_filter }}
{{ s is divisibleby }}
{{ l|length(1) }}
{{ s|upper(1) }}
{{ s|default(x=1) }}
{{ s|trim(chars='H', chars='d') }}
{{ range(*[1, 3])|list }} {{ dict(**{'a': 1}) }} {{ '{}{}'.format(*l[:2]) }} {{ range(*l) | list }}
{{ dict(**l) }}
{% if n > 5 %}big{% elif n > 3 %}mid{% else %}small{% endif %} {% if e %}x{% endif %}|{% if 0 %}a{% elif 0 %}b{% else %}c{% endif %}
{% if 1 < 2 and not false %}{% if nope %}a{% else %}b{% endif %}{% endif %}
{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ x }};{% endfor %}
{% for x in l %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }}{{ loop.previtem is defined }} {% endfor %}{{ loop }}|
{% for x in l %}{{ loop }}{{ loop.depth }}{% for y in e %}{% else %}{{ loop.index }}{% endfor %}{% endfor %}
{% for x in e %}a{% else %}none{% endfor %} {% for x in l %}a{% else %}none{% endfor %} {% for x in nope %}a{% else %}undef{% endfor %}
{% for k, v in d.items() %}{{ k }}:{{ v }} {% endfor %}{% for k in d %}{{ k }}{% endfor %}{% for c in 'hé' %}[{{ c }}]{% endfor %}
{% for a, b in [[1, 2], (3, 4), 'xy'] %}{{ a }}{{ b }}{% endfor %}{% for (a, b), c in [((1, 2), 3)] %}{{ a }}{{ b }}{{ c }}{% endfor %}
{% for a, b in [[1]] %}{% endfor %}
{% for a, b in [[1, 2, 3]] %}{% endfor %}
{% for a, b in [1] %}{% endfor %}
{% for x in 5 %}{% endfor %}
{% for x in none %}{% endfor %}
{% for x in l if x > 1 %}{{ x }}{{ loop.index }}/{{ loop.length }}{{ loop.last }} {% endfor %}{% for x in l if x > 9 %}{% else %}none{% endfor %}
{% for r in rows if r.tags %}{{ r.name }}{{ loop.first }}{% endfor %}{% for x in l|sort if x is odd %}{{ x }}{% endfor %}
{% for x in range(9) %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 4 %}{% break %}{% endif %}{{ x }}{% endfor %}
{% for x in [1] %}{% continue %}{% else %}else{% endfor %} {% for x in [1] %}{% break %}{% else %}else{% endfor %} {% for x in [1, 2] %}{% if x == 2 %}{% break %}{% endif %}{% else %}else{% endfor %}
{% for x in [1, 2] %}{% for y in [1, 2] %}{% if y == 2 %}{% break %}{% endif %}{{ x }}{{ y }}{{ loop.index }}{% endfor %}{{ loop.index }} {% endfor %}
{% break %}
{% for x in l %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}
{% for x in (1, 2) %}{{ x }}{% endfor %}{% for x in 1, 2 %}{{ x }}{% endfor %}{% for x in range(2) %}{{ x }}{% endfor %}{% for x in l|reverse %}{{ x }}{{ loop.last }}{% endfor %}{% for x in l|map('string') %}{{ x }}{{ loop.length }}{% endfor %}
{% set x = 0 %}{% for i in l %}{% set x = x + i %}{{ x }} {% endfor %}{{ x }}
{% for i in l %}{% if loop.first %}{% set y = 1 %}{% endif %}{{ y }},{% endfor %}{{ y }}|{% if true %}{% set q = 5 %}{% endif %}{{ q }}
{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set (c, d2) = [3, 4] %}{{ c }}{{ d2 }}{% set t = 1, 2 %}{{ t }}{% set x = 'a' if n else 'b' %}{{ x }}
{% set a, b = [1] %}
{% set x %}a{{ n }}b{% endset %}{{ x }}{{ x|length }} {% set y | upper | replace('A', 'o') %}aa{% endset %}{{ y }}{% set z %}{% set inner = 1 %}{{ inner }}{% endset %}{{ inner }}|{{ z }}
{% set 1 = 2 %}
{% set true = 1 %}
{% for loop in l %}{% endfor %}
{% for x in l %}{% set loop = 1 %}{% endfor %}
{% macro m(a, b='B', c=none) %}[{{ a }}{{ b }}{{ c }}]{% endmacro %}{{ m(1) }}{{ m(1, 2) }}{{ m(1, c=3) }}{{ m(b=2, a=1) }}{{ m() }}{{ m('x')|upper }}{{ m(1) ~ m(2) }}
{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{% endmacro %}{{ m(b=1) }}
{% macro m(a) %}{% endmacro %}{{ m(1, a=1) }}
{% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}{% macro v() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ v(1, 2, x=3) }}
{% macro m(a=1, b) %}{% endmacro %}
{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}
{% macro m() %}{{ outer }}{% endmacro %}{% set outer = 1 %}{{ m() }}{% set outer = 2 %}{{ m() }}{% for outer in [7] %}{{ m() }}{% endfor %}
{% macro m() %}{% set leak = 1 %}{% endmacro %}{{ m() }}{{ leak }}|{% for x in [1, 2] %}{% macro k() %}{{ x }}{% endmacro %}{{ k() }}{% endfor %}
{{ m() }}{% macro m() %}{% endmacro %}
{% filter upper %}ab{{ s }}{% endfilter %} {% filter replace('a', 'b') | upper %}aca{% endfilter %} {% filter trim %}  x {% endfilter %}|
{% generation %}a{% set gen = 1 %}{{ s }}{% endgeneration %}{{ gen }}|
{% with a = 1, b = n %}{{ a }}{{ b }}{% endwith %}{{ a }}|{% with %}{% set w2 = 1 %}{% endwith %}{{ w2 }}|{% set a = 5 %}{% with a = 1, b = a %}{{ b }}{% endwith %}
{# comment #}a{# {{ x }} {% if %} #}b{#- c -#} d
{% raw %}{{ x }} {% if %}{# c #}{% endraw %}|  {%- raw -%}  {{ y }}  {%- endraw -%}  |
a  {{- 1 -}}  b {{ 2 }} c
a  {%- if true -%}  b  {%- endif -%}  c
{%+ if true +%} x {%+ endif +%} y
{{ '}}' }} {{ "%}" }} {{ {'a': {'b': 1}} }} {{ {'a': {'b': 1}}['a']['b'] }} {{ '{{' }} {{ '#}' }} { } {a} % # {{'{%'}}
{{ 1 }
{{ (1 }}
{{ 1) }}
{{ [1, 2 }}
{{ }}
{{ 1 + }}
{{ 1 2 }}
{{ a b }}
{{ 'abc }}
{{ @ }}
{{ a.}}
{{ a[ }}
{{ a | }}
{{ a is }}
{{ f(a=1, 2) }}
{{ {'a'} }}
{{ {'a': } }}
{% if %}{% endif %}
{% if 1 %}
{% for x in l %}
{% for in l %}{% endfor %}
{% for x l %}{% endfor %}
{% endif %}
{% else %}
{% nope %}
{% set %}
{% set x %}
{% macro %}{% endmacro %}
{% macro m %}{% endmacro %}
{% if 1 %}{% endfor %}
{# open
{% raw %}x
{%
{{ [1, 2, 3][1] }}{{ "abc"[1] }}{{ (1, 2, 3)[:2] }}{{ {'a': 1}.a }}{{ {'a': 1}['a'] }}{{ 'a'.upper() }}{{ 1.5|string }}{{ "x" if 1 }}
{{ (l + [n])|sort|join('<') if l is iterable and l is not string and l is not mapping else 'no' }}
{{ (rows | selectattr('age', 'gt', 1) | map(attribute='tags') | map('join', '+') | list)[0] }}
{% for row in rows | sort(attribute='name') if row.age > 0 and 'p' not in row.tags %}{{ loop.index ~ '. ' ~ row.name }}{{ '; ' if not loop.last else '.' }}{% endfor %}
{{ 'a' 'b' ~ 1 if n == 7 and (f > 2 or nope) else none }}
{{ s[:5] ~ '…' if s|length > 5 else s }} {{ (s.split(' ')|last)[:3] }} {{ s.split()[0].lower().replace('h', 'J') }}
{{ 9223372036854775807 }} {{ -9223372036854775807 - 1 }} {{ 2 ** 62 }} {{ 10 ** 15 }} {{ 3.0 ** 2 }} {{ 4 ** 0.5 }}
{{ nope in d }} {{ d[nope] }}| {{ d.get(nope, 0) }} {{ {nope: 1}[nope2] }} {{ (1, 'a') in {(1, 'a'): 2} }} {{ {1: 'x'}[1.0] }} {{ {true: 'x'}[1] }} {{ d[nil] }}| {{ d[l] }}|
{{ 'é\x7f\u200b\u00a0\U0001F600\u0378' is string }} {{ ['é\x7f\u200b\u00a0\U0001F600\\\'"'] }} {{ ['\n\r\t\x00\x1b'] }}
"""

# Templates of several lines: white space, line ends.
BLOCKS = [
    "a\n  {% if true %}\n  b\n  {% endif %}\nc\n",
    "a\n  {{ 1 }}\n  {{ 2 }}\nb\n\n",
    "{% for x in l %}\n  {{ x }}\n{% endfor %}\n",
    "{% for x in l -%}\n  {{ x }}\n{%- endfor %}\nend",
    "  {# c #}\n  text {# c #}\n{# c\n c #}\nx",
    "a {% if true %}\n b{% endif %} \n c",
    "\t{% set x = 1 %}\t{{ x }}\n  \t{%+ set y = 2 %}\n{{ y }}",
    "{% if true +%}\nkept\n{%+ endif %}\n",
    "a\r\nb\rc\n{{ 'x\r\ny' }}\r\n",
    "\n\n{% if true %}\n\n\n{% endif %}\n\n",
    "   {%- if true %}   x   {%- endif %}   \n   {%- set z = 1 %}  y",
    "{{\n  1\n  +\n  2\n}}\n",
    "{%\n set\n x\n =\n [\n 1,\n 2\n ]\n %}\n{{ x }}\n",
    "line\n  {% raw %}\n  {{ x }}\n  {% endraw %}\nend",
    "{% set x %}\n  a\n  {% if true %}\n  b\n  {% endif %}\n{% endset %}\n[{{ x }}]",
    "{% macro m(a) %}\n  <{{ a }}>\n{% endmacro %}\n{{ m(1) }}\n  {{ m(2) }}\n",
    "{{ '' }}\n  {% if true %}x{% endif %}\n",
    "é {% if true %} ü {% endif %}\u00a0\u2003{%- if true %}x{% endif %}",
    "{# a #}\n{# b #}\n  {# c #}  \nd",
    "{{ 1 -}}\n\n  x\n  {{- 2 }}",
    "{% filter upper %}\n  abc\n{% endfilter %}\n",
    "{% if false %}\na\n{% elif true %}\n  b\n{% else %}\nc\n{% endif %}",
    "x{% if true %}\n{% endif %}y\n \n  {% set a = 1 %}  \n z",
    "",
    "\n",
    "  ",
    "{%- if true -%}\n{%- endif -%}\n",
]

TEMPLATES = [line for line in LINES.split("\n") if line] + BLOCKS
